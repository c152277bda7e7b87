package findings

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
)

// idleCores is the CPU that istiod used before the first change, in cores.
func idleCores(c *record.Control) float64 {
	if c.IdleSeconds <= 0 {
		return math.NaN()
	}
	return c.Idle.TotalS() / c.IdleSeconds
}

// apiIdleCores is the same of kube-apiserver.
func apiIdleCores(c *record.Control) float64 {
	if c.APIServerIdle == nil || c.APIServerIdleSeconds <= 0 {
		return math.NaN()
	}
	return c.APIServerIdle.TotalS() / c.APIServerIdleSeconds
}

// idleOf is the idle use that a trial's costs are net of: the median over the valid
// trials of its cell, and the trial's share of that median's error; NaN if none
// measured it. A trial's own idle time is a few seconds, in which a single garbage
// collection doubles the figure; times a window many times as long that would be
// the whole difference.
func idleOf(o *analysis.Observations, t *record.Trial, of func(*record.Control) float64) float64 {
	cell, ok := o.Plan.Index(t.Cell)
	if !ok || t.Control == nil {
		return math.NaN()
	}
	all := idleUses(o.Valid(cell), of)
	return medianOrNaN(all) + errorShare(all, of(t.Control))
}

// errorShare is what one of some values stands for of the error of their median.
// What all of a cell's trials have taken off alike, however wrong it is, is in no
// scatter: neither in intervals, nor in what identical baselines differ by. The shares
// sum to zero, and their mean scatters as the median does, by its distribution-free
// interval; a value counts by the side of the median on which it lies.
func errorShare(all []float64, own float64) float64 {
	median := stat.Typical(all, stat.Options{})
	if !stat.Finite(own) || !stat.Finite(median.SE) {
		return 0
	}
	side := func(v float64) float64 { return float64(cmp.Compare(v, median.Value)) }
	mean, square, n := 0.0, 0.0, float64(len(all))
	for _, v := range all {
		mean += side(v) / n
	}
	for _, v := range all {
		square += (side(v) - mean) * (side(v) - mean)
	}
	if square == 0 {
		return 0
	}
	return (side(own) - mean) * median.SE * math.Sqrt(n*(n-1)/square)
}

// medianIdle is the median of idle use over trials, NaN if none measured it.
func medianIdle(trials []*record.Trial, of func(*record.Control) float64) float64 {
	return medianOrNaN(idleUses(trials, of))
}

// idleUses are those of the trials that measured it.
func idleUses(trials []*record.Trial, of func(*record.Control) float64) []float64 {
	var all []float64
	for _, t := range trials {
		if t.Control == nil {
			continue
		}
		if v := of(t.Control); stat.Finite(v) {
			all = append(all, v)
		}
	}
	return all
}

// netPerChange is CPU time used in the window less what would have been used
// idle, microseconds for each change committed.
func netPerChange(used, seconds, idle float64, committed int) float64 {
	if committed <= 0 {
		return math.NaN()
	}
	if stat.Finite(idle) {
		used -= idle * seconds
	}
	return used * 1e6 / float64(committed)
}

// grossWarning says that idle use is in a figure, where nobody measured it.
func grossWarning(of func(*record.Control) float64) func(o *analysis.Observations, cell int) []note.Note {
	return func(o *analysis.Observations, cell int) []note.Note {
		if stat.Finite(medianIdle(o.Valid(cell), of)) {
			return nil
		}
		return []note.Note{noteIdleIncluded.Of()}
	}
}

func costMeasures() []analysis.Measure {
	istiod := func(t *record.Trial) float64 {
		cpu, ok := t.CPU[record.PartControl]
		if !ok {
			return math.NaN()
		}
		return cpu.TotalS()
	}
	return []analysis.Measure{
		analysis.MeasureOf("istiod_cpu_per_change", func(o *analysis.Observations, t *record.Trial) float64 {
			if t.Control == nil {
				return math.NaN()
			}
			return netPerChange(istiod(t), t.Window.Seconds, idleOf(o, t, idleCores), t.Control.Committed)
		}).Warning(grossWarning(idleCores)),
		analysis.MeasureOf("istiod_cpu_idle", ofControl(idleCores)),
		analysis.MeasureOf("istiod_memory", func(_ *analysis.Observations, t *record.Trial) float64 { return istiodMemory(t) }),
		analysis.MeasureOf("istiod_heap", ofControl(func(c *record.Control) float64 { return analysis.Positive(float64(c.HeapBytes)) })),
		analysis.MeasureOf("istiod_goroutines", ofControl(func(c *record.Control) float64 { return analysis.Positive(float64(c.Goroutines)) })),
		analysis.MeasureOf("alloc_bytes_per_change", perChange(func(c *record.Control) float64 { return analysis.Positive(float64(c.AllocBytes)) })),
		analysis.MeasureOf("alloc_bytes_per_second", func(_ *analysis.Observations, t *record.Trial) float64 {
			if t.Control == nil || !(t.Window.Seconds > 0) {
				return math.NaN()
			}
			return analysis.Positive(float64(t.Control.AllocBytes)) / t.Window.Seconds
		}),
		analysis.MeasureOf("apiserver_cpu_per_change", func(o *analysis.Observations, t *record.Trial) float64 {
			if t.Control == nil || t.Control.APIServer == nil {
				return math.NaN()
			}
			return netPerChange(t.Control.APIServer.TotalS(), apiSeconds(t), idleOf(o, t, apiIdleCores), t.Control.Committed)
		}).Warning(grossWarning(apiIdleCores)).Stepping(apiTick),
		analysis.MeasureOf("apiserver_cpu_idle", ofControl(apiIdleCores)),
		analysis.MeasureOf("simulator_cpu_share", func(_ *analysis.Observations, t *record.Trial) float64 {
			if t.Control == nil || !(istiod(t) > 0) {
				return math.NaN()
			}
			return t.Control.Simulator.TotalS() / istiod(t)
		}),
	}
}

// apiTick is what one step of kube-apiserver's CPU time, which its metrics read from /proc
// in hundredths of a second, is for each change of the trial that made the fewest.
func apiTick(o *analysis.Observations, cell int) float64 {
	most := 0.0
	for _, t := range o.Valid(cell) {
		if t.Control != nil && t.Control.Committed > 0 {
			most = max(most, 1e4/float64(t.Control.Committed))
		}
	}
	return most
}

// apiSeconds is how long kube-apiserver's CPU of a trial was counted.
func apiSeconds(t *record.Trial) float64 {
	if t.Control.APIServerSeconds > 0 {
		return t.Control.APIServerSeconds
	}
	return t.Window.Seconds
}

// coresByPart is who used the CPUs of the node in the windows of some trials,
// mean cores by part; nil where nobody counted. kube-apiserver's own window is
// another's, so that of it the rate counts. What several nodes' parts leave of
// one node's machine says nothing.
func coresByPart(o *analysis.Observations, trials []*record.Trial) map[string]float64 {
	used, seconds := map[string]float64{}, map[string]float64{}
	add := func(part string, cpu, over float64) {
		used[part], seconds[part] = used[part]+cpu, seconds[part]+over
	}
	for _, t := range trials {
		if !(t.Window.Seconds > 0) {
			continue
		}
		for part, cpu := range t.CPU {
			add(part, cpu.TotalS(), t.Window.Seconds)
		}
		if _, ok := t.CPU[record.PartSimulator]; !ok {
			add(record.PartSimulator, t.Control.Simulator.TotalS(), t.Window.Seconds)
		}
		if c := t.Control; c.APIServer != nil {
			add(record.PartAPIServer, c.APIServer.TotalS(), apiSeconds(t))
		}
	}
	out := map[string]float64{}
	for part, cpu := range used {
		out[part] = cpu / seconds[part]
	}
	machine, ok := out[record.PartMachine]
	if o.Run.Header.Machine.Nodes > 1 {
		delete(out, record.PartMachine)
	} else if ok {
		for _, part := range slices.Sorted(maps.Keys(out)) { // in one order: the same sum each time
			if part != record.PartMachine {
				machine -= out[part]
			}
		}
		out[record.PartRest] = math.Max(0, machine)
	}
	if len(out) == 0 || len(used) == 1 { // of the simulator alone nobody learns anything
		return nil
	}
	return out
}
