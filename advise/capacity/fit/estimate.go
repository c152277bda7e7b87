package fit

import (
	"maps"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/advise/capacity/push"
	"github.com/meshtrial/meshtrial/stat"
)

// estimate holds parameters fitted to some trials.
type estimate struct {
	values model.Values
	prefer preference
	// fitted marks parameters that the trials contain evidence of; others keep their
	// assumed values. Shares are the largest part of any cell's value that they make
	// up.
	fitted [model.Parameters]bool
	shares [model.Parameters]float64
}

func (e *estimate) set(p model.Parameter, v float64) {
	if stat.Finite(v) && v >= 0 {
		e.values[p], e.fitted[p], e.shares[p] = v, true, 1
	}
}

// explain fits y over some trials as a sum of parts.
func (e *estimate) explain(all []*Observation, y func(o *Observation) float64, parts ...part) {
	e.take(parts, column(all, func(o *Observation) string { return o.cell() }), column(all, y))
}

func (e *estimate) take(parts []part, cells []string, y []float64) {
	coefficients, shares := regress(cells, y, parts, e.prefer)
	for k, part := range parts {
		if e.set(part.of, coefficients[k]); e.fitted[part.of] {
			e.shares[part.of] = shares[k]
		}
	}
}

// estimateOf fits all parameters. simulated holds the simulation of each trial; others
// are trials used only for certain parameters.
func estimateOf(all []*Observation, simulated map[*Observation]simulation, others []*Observation, p preference) *estimate {
	e := &estimate{values: model.Assumed(), prefer: p}
	e.set(model.Watch, medianFinite(column(calmOf(all), func(o *Observation) float64 { return o.Watch })))
	e.set(model.Parallel, parallelOf(all, simulated))
	each := ones(len(all))
	e.explain(all, func(o *Observation) float64 { return o.Idle / float64(o.Replicas) },
		part{model.IdleCores, each}, part{model.IdleCoresPerProxy, column(all, proxies)})
	// Push contexts take time for all services if configuration changed.
	e.explain(all, func(o *Observation) float64 { return o.ContextTime / o.Contexts },
		part{model.Context, each}, part{model.ContextPerService, column(all, func(o *Observation) float64 { return o.Services * o.Configuration })})
	e.types(all, simulated)
	e.explain(all, func(o *Observation) float64 { return o.Simulator },
		part{model.Beside, column(all, func(o *Observation) float64 { return total(o.Pushes[:]) })}, part{model.BesidePerByte, column(all, allBytes)})
	e.delivery(calmOf(all))
	e.memory(all)
	e.skips(others)
	e.streams(others)
	return e
}

// calmOf returns the calm trials, or all trials if none is calm.
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

// skips fits the CPU time of turns of proxies that need nothing.
func (e *estimate) skips(others []*Observation) {
	var each []float64
	for _, o := range others {
		if o.For == ForSkips {
			each = append(each, math.Max(0, e.working(o)-e.values[model.ChangeCPU]*float64(o.ChangesMade*o.Replicas))/o.Skipped)
		}
	}
	e.set(model.SkipCPU, medianFinite(each))
}

// streams fits the CPU time of new streams: the rest of a trial's CPU time after
// subtracting the pushes that it counted. istiod also counts what it sends to new
// streams as pushes, so the pushes subtracted are those of changes: one turn each.
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
	e.explain(with, func(o *Observation) float64 {
		return math.Max(0.1*e.working(o), e.working(o)-e.turns(o)) / o.Reconnects
	}, part{model.ConnectCPU, ones(len(with))}, part{model.ConnectPerService, column(with, services)})
}

// turns returns the CPU time of a trial's changes and their turns according to the
// parameters.
func (e *estimate) turns(o *Observation) float64 {
	mesh := o.Mesh()
	r, err := e.values.Simulate(mesh, 1)
	if err != nil {
		return math.NaN()
	}
	return r.CPU - o.ContextTime
}

func column[T any](all []*Observation, of func(o *Observation) T) []T {
	out := make([]T, len(all))
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

func proxies(o *Observation) float64  { return float64(o.Proxies) / float64(o.Replicas) }
func services(o *Observation) float64 { return o.Services }
func allBytes(o *Observation) float64 { return total(o.Bytes[:]) }

// working returns istiod's CPU time for its work, without idle use and push contexts.
// It is at least a tenth of the total, since a small difference between two large
// numbers is meaningless.
func (e *estimate) working(o *Observation) float64 {
	idle := e.values[model.IdleCores] + e.values[model.IdleCoresPerProxy]*proxies(o)
	return math.Max(o.CPU/10, o.CPU-idle*float64(o.Replicas)*o.Replay.Window-o.ContextTime)
}

// types fits the CPU time and bytes of each type to its pushes.
func (e *estimate) types(all []*Observation, simulated map[*Observation]simulation) {
	e.cpu(all, simulated)
	for t := range push.Types {
		if with := pushed(t, all); len(with) > 0 {
			e.typeBytes(t, with, simulated)
		}
	}
	if !e.fitted[model.EDSBytesWhole] { // all endpoints are those that single changes bring one after the other
		e.values[model.EDSBytesWhole] = e.values[model.EDSBytesPerChange]
	}
}

// pushed returns the trials in which a type was pushed.
func pushed(t push.Type, all []*Observation) (with []*Observation) {
	for _, o := range all {
		if o.Pushes[t] > 0 {
			with = append(with, o)
		}
	}
	return with
}

// pushParts are the parameters that a push of a type to one proxy consists of.
type pushParts struct {
	each, perChange, perService, whole, anew model.Parameter
}

// none is no parameter.
const none model.Parameter = -1

func cpuParts(t push.Type) pushParts {
	p := pushParts{model.CPUOf(t), none, model.CPUPerServiceOf(t), none, none}
	if model.ByDifference(t) {
		p.perChange = model.CPUPerChangeOf(t)
	}
	switch t {
	case push.EDS:
		p.whole = model.EDSCPUWhole
	case push.RDS:
		p.anew = model.RDSCPUAnew
	}
	return p
}

func bytesParts(t push.Type) pushParts {
	if !model.ByDifference(t) {
		return pushParts{model.BytesOf(t), none, model.BytesPerServiceOf(t), none, none}
	}
	p := pushParts{model.BytesOf(t), model.BytesPerChangeOf(t), none, none, none} // unchanged resources are not sent
	if t == push.EDS {
		p.whole = model.EDSBytesWhole
	}
	return p
}

// of returns the amount of each part in one push of a type, averaged over a trial.
func (p pushParts) of(t push.Type, o *Observation, s simulation) map[model.Parameter]float64 {
	out := map[model.Parameter]float64{p.each: 1, p.perChange: s.own[t], p.perService: o.Services, p.whole: s.whole[t] * o.Services, p.anew: s.anew[t] * o.Services}
	delete(out, none)
	return out
}

func (e *estimate) typeBytes(t push.Type, with []*Observation, simulated map[*Observation]simulation) {
	names := bytesParts(t)
	var parts []part
	for _, p := range slices.Sorted(maps.Keys(names.of(t, with[0], simulated[with[0]]))) {
		parts = append(parts, part{p, column(with, func(o *Observation) float64 { return names.of(t, o, simulated[o])[p] })})
	}
	e.explain(with, func(o *Observation) float64 { return o.Bytes[t] / o.Pushes[t] }, parts...)
	if model.ByDifference(t) {
		e.set(model.BytesPerServiceOf(t), 0)
	}
}

// share returns a type's share of the cost of pushes, from a profile or else from
// istiod's timers.
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

func (e *estimate) delivery(all []*Observation) {
	e.explain(all, func(o *Observation) float64 { return o.Deliver },
		part{model.Apply, ones(len(all))}, part{model.ApplyPerByte, column(all, func(o *Observation) float64 { return allBytes(o) / o.Turns })})
}

func (e *estimate) memory(all []*Observation) {
	e.explain(all, func(o *Observation) float64 { return o.Memory },
		part{model.Memory, ones(len(all))},
		part{model.MemoryPerProxy, column(all, proxies)},
		part{model.MemoryPerService, column(all, services)},
		part{model.MemoryPerPair, column(all, func(o *Observation) float64 { return proxies(o) * o.Services })},
		part{model.MemoryPerRate, column(all, func(o *Observation) float64 { return allBytes(o) / o.Replay.Window / float64(o.Replicas) })})
}
