package fit

import (
	"fmt"
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

// amounts are how many units of each parameter's cost something has.
type amounts map[model.Parameter]float64

// equation is a measurement of a cell as a sum of costs.
type equation struct {
	cell string
	y    float64
	of   amounts
}

// explain fits what some trials measured as a sum of costs.
func (e *estimate) explain(all []*Observation, of func(o *Observation) (float64, amounts)) {
	var equations []equation
	for _, o := range all {
		y, costs := of(o)
		equations = append(equations, equation{o.cell(), y, costs})
	}
	e.fit(equations)
}

func (e *estimate) fit(equations []equation) {
	cells, y := make([]string, len(equations)), make([]float64, len(equations))
	columns := map[model.Parameter][]float64{}
	for i, q := range equations {
		cells[i], y[i] = q.cell, q.y
		for p, x := range q.of {
			if columns[p] == nil {
				columns[p] = make([]float64, len(equations))
			}
			columns[p][i] = x
		}
	}
	var parts []part
	for _, p := range slices.Sorted(maps.Keys(columns)) {
		parts = append(parts, part{p, columns[p]})
	}
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
	e.explain(all, func(o *Observation) (float64, amounts) {
		return o.Idle / float64(o.Replicas), amounts{model.IdleCores: 1, model.IdleCoresPerProxy: proxies(o)}
	})
	// Push contexts take time for all services if configuration changed.
	e.explain(all, func(o *Observation) (float64, amounts) {
		return o.ContextTime / o.Contexts, amounts{model.Context: 1, model.ContextPerService: o.Services * o.Configuration}
	})
	e.cpu(all, simulated)
	e.bytes(all, simulated)
	e.explain(all, func(o *Observation) (float64, amounts) {
		return o.Simulator, amounts{model.Beside: total(o.Pushes[:]), model.BesidePerByte: total(o.Bytes[:])}
	})
	e.explain(calmOf(all), func(o *Observation) (float64, amounts) {
		return o.Deliver, amounts{model.Apply: 1, model.ApplyPerByte: total(o.Bytes[:]) / o.Turns}
	})
	e.explain(all, func(o *Observation) (float64, amounts) {
		return o.Memory, amounts{
			model.Memory:           1,
			model.MemoryPerProxy:   proxies(o),
			model.MemoryPerService: o.Services,
			model.MemoryPerPair:    proxies(o) * o.Services,
			model.MemoryPerRate:    total(o.Bytes[:]) / o.Replay.Window / float64(o.Replicas),
		}
	})
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
	e.explain(with, func(o *Observation) (float64, amounts) {
		rest := math.Max(0.1*e.working(o), e.working(o)-e.turns(o))
		return rest / o.Reconnects, amounts{model.ConnectCPU: 1, model.ConnectPerService: o.Services}
	})
}

// turns returns the CPU time of a trial's changes and their turns according to the
// parameters.
func (e *estimate) turns(o *Observation) float64 {
	r, err := e.values.Simulate(o.Mesh(), 1)
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

func proxies(o *Observation) float64 { return float64(o.Proxies) / float64(o.Replicas) }

// working returns istiod's CPU time for its work, without idle use and push contexts.
// It is at least a tenth of the total, since a small difference between two large
// numbers is meaningless.
func (e *estimate) working(o *Observation) float64 {
	idle := e.values[model.IdleCores] + e.values[model.IdleCoresPerProxy]*proxies(o)
	return math.Max(o.CPU/10, o.CPU-idle*float64(o.Replicas)*o.Replay.Window-o.ContextTime)
}

// cpuAmounts returns what one push of a type to one proxy costs istiod, averaged over a trial.
func cpuAmounts(t push.Type, o *Observation, s simulation) amounts {
	out := amounts{model.CPUOf(t): 1, model.CPUPerServiceOf(t): o.Services}
	if model.ByDifference(t) {
		out[model.CPUPerChangeOf(t)] = s.own[t]
	}
	switch t {
	case push.EDS:
		out[model.EDSCPUWhole] = s.whole[t] * o.Services
	case push.RDS:
		out[model.RDSCPUAnew] = s.anew[t] * o.Services
	}
	return out
}

// byteAmounts returns what such a push consists of.
func byteAmounts(t push.Type, o *Observation, s simulation) amounts {
	if !model.ByDifference(t) {
		return amounts{model.BytesOf(t): 1, model.BytesPerServiceOf(t): o.Services}
	}
	out := amounts{model.BytesOf(t): 1, model.BytesPerChangeOf(t): s.own[t]} // unchanged resources are not sent
	if t == push.EDS {
		out[model.EDSBytesWhole] = s.whole[t] * o.Services
	}
	return out
}

// bytes fits the bytes of each type to its pushes.
func (e *estimate) bytes(all []*Observation, simulated map[*Observation]simulation) {
	for t := range push.Types {
		var with []*Observation
		for _, o := range all {
			if o.Pushes[t] > 0 {
				with = append(with, o)
			}
		}
		e.explain(with, func(o *Observation) (float64, amounts) {
			return o.Bytes[t] / o.Pushes[t], byteAmounts(t, o, simulated[o])
		})
		if len(with) > 0 && model.ByDifference(t) {
			e.set(model.BytesPerServiceOf(t), 0)
		}
	}
	if !e.fitted[model.EDSBytesWhole] { // all endpoints are those that single changes bring one after the other
		e.values[model.EDSBytesWhole] = e.values[model.EDSBytesPerChange]
	}
}

// share returns a type's share of the cost of pushes, from a profile or else from
// istiod's timers.
func (o *Observation) share(t push.Type) float64 {
	if o.Generation != nil {
		return o.Generation[t]
	}
	return o.Times[t] / total(o.Times[:]) // NaN without timers
}

// cpu fits istiod's CPU time to the pushes of all types together. A calm trial has a
// row for each type, weighted by istiod's timers, which measure wall-clock time. If
// pushes overlap, the timers include waiting for CPUs, which is as long for a small
// type as for a large one. Such a trial has a row for each type only if a profile says
// how CPU time divides among them, and otherwise one row for all types.
func (e *estimate) cpu(all []*Observation, simulated map[*Observation]simulation) {
	someCalm := slices.ContainsFunc(all, (*Observation).calm)
	var equations []equation
	// A trial's pushes of some types take a share of its CPU time.
	add := func(o *Observation, what string, types []push.Type, share float64) {
		of := amounts{model.ChangeCPU: share * float64(o.ChangesMade*o.Replicas)}
		for _, t := range types {
			for p, x := range cpuAmounts(t, o, simulated[o]) {
				of[p] += x * o.Pushes[t]
			}
		}
		equations = append(equations, equation{o.cell() + what, share * e.working(o), of})
	}
	for _, o := range all {
		var types []push.Type
		for t := range push.Types {
			if o.Pushes[t] > 0 {
				types = append(types, t)
			}
		}
		if someCalm && !o.calm() && o.Generation == nil {
			for i := range types { // it weighs as much as a calm trial
				add(o, fmt.Sprint("all", i), types, 1)
			}
			continue
		}
		for _, t := range types {
			if share := o.share(t); stat.Finite(share) {
				add(o, t.String(), []push.Type{t}, share)
			}
		}
	}
	e.fit(equations)
}
