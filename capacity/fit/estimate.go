package fit

import (
	"math"

	"github.com/meshtrial/meshtrial/capacity/model"
	"github.com/meshtrial/meshtrial/capacity/push"
	"github.com/meshtrial/meshtrial/stat"
)

// estimate is parameters of some trials. What they do not tell has its assumed
// value, and told is false.
type estimate struct {
	values model.Values
	told   [model.Parameters]bool
}

func (e *estimate) set(p model.Parameter, v float64) {
	if stat.Finite(v) && v >= 0 {
		e.values[p], e.told[p] = v, true
	}
}

// estimateOf fits all parameters; parallel has that of each trial, by its place;
// others are trials that are for some parameters alone.
func estimateOf(all []*Observation, parallel []float64, others []*Observation) *estimate {
	e := &estimate{values: model.Assumed()}
	e.set(model.Watch, medianOf(all, func(o *Observation) float64 { return o.Watch }))
	e.set(model.Parallel, medianFinite(parallel))
	e.idle(all)
	e.contexts(all)
	e.types(all)
	e.beside(all)
	e.delivery(all)
	e.memory(all)
	e.skips(others)
	e.streams(others)
	return e
}

// skips is the CPU time of turns of proxies that need nothing.
func (e *estimate) skips(others []*Observation) {
	var each []float64
	for _, o := range others {
		if o.For == ForSkips {
			each = append(each, math.Max(0, e.working(o)-e.values[model.ChangeCPU]*float64(o.ChangesMade*o.Replicas))/o.Skipped)
		}
	}
	e.set(model.SkipCPU, medianFinite(each))
}

// streams is the CPU time of new streams: what is left of a trial's when the
// pushes that it counted are taken off. What new streams were sent is counted
// with pushes by istiod, so that these are those of changes: a turn for each.
func (e *estimate) streams(others []*Observation) {
	var with []*Observation
	for _, o := range others {
		if o.For == ForStreams && o.Reconnects > 0 {
			with = append(with, o)
		}
	}
	if len(with) == 0 {
		return
	}
	s := column(with, services)
	b := regress(column(with, func(o *Observation) float64 {
		return math.Max(0.1*e.working(o), e.working(o)-e.turns(o)) / o.Reconnects
	}), [][]float64{ones(len(with)), s}, []bool{true, varies(s)})
	e.set(model.ConnectCPU, b[0])
	e.set(model.ConnectPerService, b[1])
}

// turns is the CPU time of a trial's changes and their turns by the parameters.
func (e *estimate) turns(o *Observation) float64 {
	mesh := o.Mesh()
	r, err := e.values.Simulate(mesh, 1)
	if err != nil {
		return math.NaN()
	}
	return r.CPU - o.ContextTime
}

func column(all []*Observation, of func(o *Observation) float64) []float64 {
	out := make([]float64, len(all))
	for i, o := range all {
		out[i] = of(o)
	}
	return out
}

func ones(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = 1
	}
	return out
}

func medianFinite(values []float64) float64 {
	var finite []float64
	for _, v := range values {
		if stat.Finite(v) {
			finite = append(finite, v)
		}
	}
	if len(finite) == 0 {
		return math.NaN()
	}
	return stat.Median(finite)
}

func medianOf(all []*Observation, of func(o *Observation) float64) float64 {
	return medianFinite(column(all, of))
}

func proxies(o *Observation) float64  { return float64(o.Proxies) / float64(o.Replicas) }
func services(o *Observation) float64 { return o.Services }

func (e *estimate) idle(all []*Observation) {
	n := column(all, proxies)
	b := regress(column(all, func(o *Observation) float64 { return o.Idle / float64(o.Replicas) }), [][]float64{ones(len(all)), n}, []bool{true, varies(n)})
	e.set(model.IdleCores, b[0])
	e.set(model.IdleCoresPerProxy, b[1])
}

// contexts fits the time of push contexts to the services, where configuration
// changed.
func (e *estimate) contexts(all []*Observation) {
	x := column(all, func(o *Observation) float64 { return o.Services * o.Configuration })
	b := regress(column(all, func(o *Observation) float64 { return o.ContextTime / o.Contexts }), [][]float64{ones(len(all)), x}, []bool{true, varies(x)})
	e.set(model.Context, b[0])
	e.set(model.ContextPerService, b[1])
}

// working is istiod's CPU time for what it was asked: without idle use and
// push contexts; a tenth of the whole at least, since a small difference of
// two large figures says nothing.
func (e *estimate) working(o *Observation) float64 {
	idle := e.values[model.IdleCores] + e.values[model.IdleCoresPerProxy]*proxies(o)
	return math.Max(o.CPU/10, o.CPU-idle*float64(o.Replicas)*o.Replay.Window-o.ContextTime)
}

// types fits CPU time and bytes of each type to its pushes.
func (e *estimate) types(all []*Observation) {
	change, told := 0.0, false
	for t := range push.Types {
		var with []*Observation
		for _, o := range all {
			if o.Pushes[t] > 0 {
				with = append(with, o)
			}
		}
		if len(with) == 0 {
			continue
		}
		each := column(with, func(o *Observation) float64 {
			if model.ByDifference(t) {
				return o.Merged[t]
			}
			return 1
		})
		s := column(with, services)
		perPush := column(with, func(o *Observation) float64 { return float64(o.ChangesMade*o.Replicas) / o.Pushes[t] })
		cpu := column(with, func(o *Observation) float64 { return e.working(o) * o.share(t) / o.Pushes[t] })
		b := regress(cpu, [][]float64{each, s, perPush}, []bool{true, varies(s), varies(column(with, proxies))})
		e.set(model.CPUOf(t), b[0])
		e.set(model.CPUPerServiceOf(t), b[1])
		if stat.Finite(b[2]) {
			change, told = change+b[2], true
		}
		b = regress(column(with, func(o *Observation) float64 { return o.Bytes[t] / o.Pushes[t] }), [][]float64{each, s}, []bool{true, varies(s)})
		e.set(model.BytesOf(t), b[0])
		e.set(model.BytesPerServiceOf(t), b[1])
	}
	if told {
		e.set(model.ChangeCPU, change)
	}
}

// share is a type's share of the time that istiod's timers of pushes counted.
func (o *Observation) share(t push.Type) float64 {
	all := 0.0
	for _, v := range o.Times {
		all += v
	}
	if all == 0 {
		return math.NaN()
	}
	return o.Times[t] / all
}

func (e *estimate) beside(all []*Observation) {
	e.set(model.Beside, medianOf(all, func(o *Observation) float64 { return o.Simulator / e.working(o) }))
}

func (e *estimate) delivery(all []*Observation) {
	bytes := column(all, func(o *Observation) float64 {
		sum := 0.0
		for _, b := range o.Bytes {
			sum += b
		}
		return sum / o.Turns
	})
	b := regress(column(all, func(o *Observation) float64 { return o.Deliver }), [][]float64{ones(len(all)), bytes}, []bool{true, varies(bytes)})
	e.set(model.Apply, b[0])
	e.set(model.ApplyPerByte, b[1])
}

func (e *estimate) memory(all []*Observation) {
	n, s := column(all, proxies), column(all, services)
	pairs := column(all, func(o *Observation) float64 { return proxies(o) * o.Services })
	rate := column(all, func(o *Observation) float64 {
		sum := 0.0
		for _, b := range o.Bytes {
			sum += b
		}
		return sum / o.Replay.Window / float64(o.Replicas)
	})
	b := regress(column(all, func(o *Observation) float64 { return o.Memory }), [][]float64{ones(len(all)), n, s, pairs, rate},
		[]bool{true, varies(n), varies(s), varies(n) && varies(s), varies(rate)})
	for k, p := range []model.Parameter{model.Memory, model.MemoryPerProxy, model.MemoryPerService, model.MemoryPerPair, model.MemoryPerRate} {
		e.set(p, b[k])
	}
}
