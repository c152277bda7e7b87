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

// idleCores returns the CPU that istiod used before the first change, in cores.
func idleCores(c *record.Control) float64 {
	return ratio(c.Idle.TotalS(), c.IdleSeconds)
}

// apiIdleCores returns the same for kube-apiserver.
func apiIdleCores(c *record.Control) float64 {
	if c.APIServerIdle == nil {
		return math.NaN()
	}
	return ratio(c.APIServerIdle.TotalS(), c.APIServerIdleSeconds)
}

// idleOf returns the idle use to subtract from a trial's costs: the median over the valid trials of
// its cell, plus the trial's share of that median's error; NaN if none measured it. A trial's own
// idle period is a few seconds, in which a single garbage collection doubles the value. Multiplied
// by a much longer window, that would dominate the difference.
func idleOf(o *analysis.Observations, t *record.Trial, of func(*record.Control) float64) float64 {
	cell, ok := o.Plan.Index(t.Cell)
	if !ok {
		return math.NaN()
	}
	all := idleUses(o.Valid(cell), of)
	return medianOrNaN(all) + errorShare(all, of(t.Control))
}

// errorShare returns one value's share of the error of their median. An error subtracted from all
// trials of a cell equally does not show in any scatter: neither in intervals nor in the noise
// floor between identical baselines. The shares sum to zero, and their mean scatters like the
// median, by its distribution-free interval. A value's sign depends on its side of the median.
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

// idleUses returns the idle use of the trials that measured it.
func idleUses(trials []*record.Trial, of func(*record.Control) float64) []float64 {
	var all []float64
	for _, t := range trials {
		if v := of(t.Control); stat.Finite(v) {
			all = append(all, v)
		}
	}
	return all
}

// netPerChange returns the CPU time used in the window minus idle use, in microseconds per
// committed change.
func netPerChange(used, seconds, idle float64, committed int) float64 {
	if stat.Finite(idle) {
		used -= idle * seconds
	}
	return ratio(used*1e6, float64(committed))
}

// grossWarning notes that a figure includes idle use because that was not measured.
func grossWarning(of func(*record.Control) float64) func(o *analysis.Observations, cell int) []note.Note {
	return func(o *analysis.Observations, cell int) []note.Note {
		if len(idleUses(o.Valid(cell), of)) > 0 {
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
			return netPerChange(istiod(t), t.Window.Seconds, idleOf(o, t, idleCores), t.Control.Committed)
		}).Warning(grossWarning(idleCores)),
		analysis.MeasureOf("istiod_cpu_idle", ofControl(idleCores)),
		analysis.MeasureOf("istiod_memory", func(_ *analysis.Observations, t *record.Trial) float64 { return istiodMemory(t) }),
		analysis.MeasureOf("istiod_heap", ofControl(func(c *record.Control) float64 { return analysis.Positive(float64(c.HeapBytes)) })),
		analysis.MeasureOf("istiod_goroutines", ofControl(func(c *record.Control) float64 { return analysis.Positive(float64(c.Goroutines)) })),
		analysis.MeasureOf("alloc_bytes_per_change", perChange(func(c *record.Control) float64 { return analysis.Positive(float64(c.AllocBytes)) })),
		analysis.MeasureOf("alloc_bytes_per_second", func(_ *analysis.Observations, t *record.Trial) float64 {
			return ratio(analysis.Positive(float64(t.Control.AllocBytes)), t.Window.Seconds)
		}),
		analysis.MeasureOf("apiserver_cpu_per_change", func(o *analysis.Observations, t *record.Trial) float64 {
			if t.Control.APIServer == nil {
				return math.NaN()
			}
			return netPerChange(t.Control.APIServer.TotalS(), apiSeconds(t), idleOf(o, t, apiIdleCores), t.Control.Committed)
		}).Warning(grossWarning(apiIdleCores)).Stepping(apiTick),
		analysis.MeasureOf("apiserver_cpu_idle", ofControl(apiIdleCores)),
		analysis.MeasureOf("simulator_cpu_share", func(_ *analysis.Observations, t *record.Trial) float64 {
			return ratio(t.Control.Simulator.TotalS(), istiod(t))
		}),
	}
}

// apiTick returns one tick of kube-apiserver's CPU time, which its metrics read from /proc in
// hundredths of a second, per change of the trial with the fewest changes.
func apiTick(o *analysis.Observations, cell int) float64 {
	most := 0.0
	for _, t := range o.Valid(cell) {
		if t.Control.Committed > 0 {
			most = max(most, 1e4/float64(t.Control.Committed))
		}
	}
	return most
}

// apiSeconds returns the time over which a trial's kube-apiserver CPU was counted.
func apiSeconds(t *record.Trial) float64 {
	if t.Control.APIServerSeconds > 0 {
		return t.Control.APIServerSeconds
	}
	return t.Window.Seconds
}

// coresByPart returns the users of the node's CPUs in the windows of some trials, as mean cores by
// part; nil if not counted. kube-apiserver has a different window, so its rate is used. With parts
// on several nodes, the remainder of one node's machine says nothing.
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
		for _, part := range slices.Sorted(maps.Keys(out)) { // fixed order, for a reproducible sum
			if part != record.PartMachine {
				machine -= out[part]
			}
		}
		out[record.PartRest] = math.Max(0, machine)
	}
	if len(out) == 0 || len(used) == 1 { // the simulator alone tells nothing
		return nil
	}
	return out
}
