package fit

import (
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/advise/capacity/push"
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

// estimateOf fits all parameters; simulated has what simulating each trial said
// of it; others are trials that are for some parameters alone.
func estimateOf(all []*Observation, simulated map[*Observation]simulation, others []*Observation) *estimate {
	e := &estimate{values: model.Assumed()}
	e.set(model.Watch, medianOf(calmOf(all), func(o *Observation) float64 { return o.Watch }))
	e.set(model.Parallel, parallelOf(all, simulated))
	e.idle(all)
	e.contexts(all)
	e.types(all, simulated)
	e.beside(all)
	e.delivery(calmOf(all))
	e.memory(all)
	e.skips(others)
	e.streams(others)
	return e
}

// calmOf are the calm trials, or all if there are none.
func calmOf(all []*Observation) []*Observation {
	var calm []*Observation
	for _, o := range all {
		if o.calm() {
			calm = append(calm, o)
		}
	}
	if len(calm) == 0 {
		return all
	}
	return calm
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
func (e *estimate) types(all []*Observation, simulated map[*Observation]simulation) {
	e.cpu(all, simulated)
	for t := range push.Types {
		if with := pushed(t, all); len(with) > 0 {
			e.typeBytes(t, with, simulated)
		}
	}
	if !e.told[model.EDSBytesWhole] { // all endpoints are those that one change after the other brings
		e.values[model.EDSBytesWhole] = e.values[model.EDSBytesPerChange]
	}
}

// pushed are the trials in which a type was.
func pushed(t push.Type, all []*Observation) (with []*Observation) {
	for _, o := range all {
		if o.Pushes[t] > 0 {
			with = append(with, o)
		}
	}
	return with
}

// explain is what explains a type's pushes: changes in them with a part of their
// own, the pushes themselves, services, services of whole pushes, and of those
// made anew.
func explain(t push.Type, with []*Observation, simulated map[*Observation]simulation) (columns [][]float64, use []bool) {
	of := func(share func(s simulation) float64) []float64 {
		return column(with, func(o *Observation) float64 { return share(simulated[o]) })
	}
	own := of(func(s simulation) float64 { return s.own[t] })
	whole := of(func(s simulation) float64 { return s.whole[t] })
	anew := of(func(s simulation) float64 { return s.anew[t] })
	seen := column(with, services)
	use = []bool{model.ByDifference(t), !model.ByDifference(t) || varies(own), varies(seen), t == push.EDS && tells(whole), t == push.RDS && tells(anew)}
	return [][]float64{own, ones(len(with)), seen, product(whole, seen), product(anew, seen)}, use
}

// tells says whether a share differs enough between trials to tell what it takes:
// a few pushes in a hundred are lost in what others take.
func tells(share []float64) bool { return slices.Max(share)-slices.Min(share) > 0.1 }

func product(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range out {
		out[i] = a[i] * b[i]
	}
	return out
}

// explanations is how many columns [explain] has.
const explanations = 5

func (e *estimate) typeBytes(t push.Type, with []*Observation, simulated map[*Observation]simulation) {
	columns, use := explain(t, with, simulated)
	difference := model.ByDifference(t)
	use[2] = use[2] && !difference
	b := regress(column(with, func(o *Observation) float64 { return o.Bytes[t] / o.Pushes[t] }), columns[:4], use[:4])
	e.setOf(t, b, model.BytesOf(t), model.BytesPerServiceOf(t), model.BytesPerChangeOf(t))
	if difference { // what did not change is not sent
		e.set(model.BytesPerServiceOf(t), 0)
	}
	if t == push.EDS {
		e.set(model.EDSBytesWhole, b[3])
	}
}

// setOf sets a type's parameters; where all pushes merge as many changes, nothing
// tells what a push takes by itself, and it is part of what each change takes.
func (e *estimate) setOf(t push.Type, b []float64, base, perService, perChange model.Parameter) {
	if model.ByDifference(t) && stat.Finite(b[0]) {
		e.set(perChange, b[0])
		e.values[base] = 0
	}
	e.set(base, b[1])
	e.set(perService, b[2])
}

// share is a type's share of what pushes took, by a profile or else by istiod's timers.
func (o *Observation) share(t push.Type) float64 {
	if o.Generation != nil {
		return o.Generation[t]
	}
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
	pushes := column(all, func(o *Observation) float64 { return total(o.Pushes[:]) })
	bytes := column(all, func(o *Observation) float64 { return total(o.Bytes[:]) })
	size := make([]float64, len(all))
	for i := range size {
		size[i] = bytes[i] / pushes[i]
	}
	b := regress(column(all, func(o *Observation) float64 { return o.Simulator }), [][]float64{pushes, bytes}, []bool{true, varies(size)})
	e.set(model.Beside, b[0])
	e.set(model.BesidePerByte, b[1])
}

func (e *estimate) delivery(all []*Observation) {
	bytes := column(all, func(o *Observation) float64 { return total(o.Bytes[:]) / o.Turns })
	b := regress(column(all, func(o *Observation) float64 { return o.Deliver }), [][]float64{ones(len(all)), bytes}, []bool{true, varies(bytes)})
	e.set(model.Apply, b[0])
	e.set(model.ApplyPerByte, b[1])
}

func (e *estimate) memory(all []*Observation) {
	n, s := column(all, proxies), column(all, services)
	pairs := column(all, func(o *Observation) float64 { return proxies(o) * o.Services })
	rate := column(all, func(o *Observation) float64 { return total(o.Bytes[:]) / o.Replay.Window / float64(o.Replicas) })
	b := regress(column(all, func(o *Observation) float64 { return o.Memory }), [][]float64{ones(len(all)), n, s, pairs, rate},
		[]bool{true, varies(n), varies(s), varies(n) && varies(s), varies(rate)})
	for k, p := range []model.Parameter{model.Memory, model.MemoryPerProxy, model.MemoryPerService, model.MemoryPerPair, model.MemoryPerRate} {
		e.set(p, b[k])
	}
}
