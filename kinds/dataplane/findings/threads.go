package findings

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// Thresholds above which something limits a proxy.
const (
	// fullRatio is the running share of a thread without spare time: requests queue for it long
	// before it runs all the time.
	fullRatio = 0.85
	// throttledRatio is a share of periods. Throttling in fewer than one in twenty does not even
	// affect the 99th percentile of most latencies.
	throttledRatio = 0.05
	// waitRatio is the share of time for which workers are runnable without a CPU, on a machine of
	// which busyRatio is in use.
	waitRatio = 0.15
	busyRatio = 0.9
	// spareRatio is the share of the machine in use beyond which additional threads only share the
	// existing CPU.
	spareRatio = 0.95
	// idleRatio is a fraction of the busiest worker's time: workers below half of it have room for
	// its work.
	idleRatio = 0.5
)

// threadMeasures returns measures of proxies' threads. For the pods of several generators they
// cover the busiest.
func threadMeasures(s *study.Study) []analysis.Measure {
	var out []analysis.Measure
	add := func(name string, of func(record.Threads) float64) {
		out = append(out, analysis.OfFamily(s, name+"_%s", func(d finding.Def) analysis.Measure {
			return analysis.MeasureOf(d.Name, func(_ *analysis.Observations, t *record.Trial) float64 {
				th, proxies := t.ThreadsOf(d.Part)
				if proxies == 0 {
					return math.NaN()
				}
				return of(th)
			})
		})...)
	}
	add(dataplane.FindingBusiestWorker, func(th record.Threads) float64 {
		busy := workersBusy(th)
		if len(busy) == 0 {
			return math.NaN()
		}
		return slices.Max(busy)
	})
	add(dataplane.FindingImbalance, func(th record.Threads) float64 { return imbalance(workersBusy(th)) })
	add(dataplane.FindingWorkerWait, func(th record.Threads) float64 {
		var wait float64
		n := 0
		for _, t := range th.Threads {
			if _, ok := t.Worker(); ok {
				wait, n = wait+t.WaitS, n+1
			}
		}
		return wait / float64(n) / th.Seconds
	})
	add(dataplane.FindingThrottled, throttled)
	add(dataplane.FindingInvoluntary, func(th record.Threads) float64 {
		var n int64
		for _, t := range th.Threads {
			n += t.Involuntary
		}
		return float64(n) / th.Seconds
	})
	return out
}

// workersBusy returns the shares of time for which a proxy's workers ran.
func workersBusy(th record.Threads) []float64 {
	var out []float64
	for _, t := range th.Threads {
		if _, ok := t.Worker(); ok {
			out = append(out, t.CPU.TotalS()/th.Seconds)
		}
	}
	return out
}

// imbalance returns the excess of the busiest worker over the mean, as a share of the mean; NaN for
// fewer than two.
func imbalance(busy []float64) float64 {
	sum := 0.0
	for _, b := range busy {
		sum += b
	}
	if len(busy) < 2 || sum <= 0 {
		return math.NaN()
	}
	return slices.Max(busy)*float64(len(busy))/sum - 1
}

// throttled returns the share of periods in which the CPU limit throttled a part; NaN without a
// limit.
func throttled(th record.Threads) float64 {
	if th.QuotaCores <= 0 {
		return math.NaN()
	}
	return float64(th.Throttled) / float64(max(th.Periods, 1))
}

// pauseProcess holds a pod's namespaces and does nothing else.
const pauseProcess = "pause"

// threads summarizes the parts' threads in a cell; nil if no trial has any.
func threads(o *analysis.Observations, cell int) map[string]record.ThreadsSummary {
	out := map[string]record.ThreadsSummary{}
	valid := o.Valid(cell)
	for _, part := range study.MemoryParts {
		var all []record.Threads
		most := 0
		for _, t := range valid {
			if th, of := t.ThreadsOf(part); of > 0 {
				all, most = append(all, th), max(most, of)
			}
		}
		if len(all) > 0 {
			out[part] = threadsSummary(part, most, all, analysis.Pressure(valid))
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// threadsSummary summarizes the part's threads over trials. Of several instances, one per
// generator, it covers the busiest.
func threadsSummary(part string, of int, all []record.Threads, machine *record.Pressure) record.ThreadsSummary {
	n := float64(len(all))
	s := record.ThreadsSummary{Trials: len(all)}
	var names []string
	rows := map[string]*record.ThreadRow{}
	accepted := map[string][]float64{}
	for _, th := range all {
		s.Cores += th.CPUS / th.Seconds / n
		s.QuotaCores = th.QuotaCores
		if v := throttled(th); stat.Finite(v) {
			s.ThrottledRatio += v / n
		}
		if th.CPUS > 0 {
			s.DisagreementRatio = math.Max(s.DisagreementRatio, math.Abs(th.UnaccountedS)/th.CPUS)
		}
		proxies := withWorkers(th)
		count := map[string]int{}
		for _, t := range th.Threads {
			name := rowName(t, proxies)
			if name == pauseProcess {
				continue
			}
			r := rows[name]
			if r == nil {
				_, worker := t.Worker()
				r = &record.ThreadRow{Name: name, Worker: worker}
				rows[name], names = r, append(names, name)
			}
			count[name]++
			r.UserRatio += t.CPU.UserS / th.Seconds / n
			r.SystemRatio += t.CPU.SystemS / th.Seconds / n
			r.WaitRatio += t.WaitS / th.Seconds / n
			r.VoluntaryPerS += float64(t.Voluntary) / th.Seconds / n
			r.InvoluntaryPerS += float64(t.Involuntary) / th.Seconds / n
			if t.Accepted != nil {
				accepted[name] = append(accepted[name], float64(*t.Accepted))
			}
		}
		for name, k := range count {
			rows[name].Threads = max(rows[name].Threads, k)
		}
	}
	var busy []float64
	for _, name := range names {
		r := rows[name]
		if of := accepted[name]; len(of) > 0 {
			n := int64(math.Round(stat.Median(of)))
			r.Accepted = &n
		}
		if r.Worker {
			busy = append(busy, r.BusyRatio())
		}
		s.Rows = append(s.Rows, *r)
	}
	slices.SortStableFunc(s.Rows, func(a, b record.ThreadRow) int {
		return cmp.Or(cmp.Compare(rowRank(a), rowRank(b)), cmp.Compare(a.Name, b.Name))
	})
	if v := imbalance(busy); stat.Finite(v) {
		s.ImbalanceRatio = v
	}
	s.Limit, s.Says = limitOf(part, of, s, machine)
	return s
}

// withWorkers returns the processes that have worker threads.
func withWorkers(th record.Threads) map[int]bool {
	out := map[int]bool{}
	for _, t := range th.Threads {
		if _, ok := t.Worker(); ok {
			out[t.PID] = true
		}
	}
	return out
}

// rowName returns the row that a thread counts toward: each worker and the main thread of a proxy
// have their own, its other threads share one, and each other process has one.
func rowName(t record.Thread, proxies map[int]bool) string {
	n, worker := t.Worker()
	switch {
	case worker:
		return fmt.Sprintf("worker_%d", n)
	case proxies[t.PID] && t.Main():
		return "main"
	case proxies[t.PID]:
		return "others"
	}
	return t.Process
}

func rowRank(r record.ThreadRow) int {
	switch {
	case r.Worker:
		return 0
	case r.Name == "main":
		return 1
	case r.Name == "others":
		return 2
	}
	return 3
}

// limitOf returns what limits a part, with the evidence; "" if nothing does. of is the number of
// generators with such a part: the limit is that of the busiest.
func limitOf(part string, of int, s record.ThreadsSummary, machine *record.Pressure) (limit string, says note.Note) {
	var busy, wait []float64
	main := 0.0
	for _, r := range s.Rows {
		switch {
		case r.Worker:
			busy, wait = append(busy, r.BusyRatio()), append(wait, r.WaitRatio)
		case r.Name == "main":
			main = r.BusyRatio()
		}
	}
	if len(busy) == 0 {
		return "", note.Note{}
	}
	inUse := 0.0
	var throttled, quota, state any
	if machine != nil {
		inUse, state = machine.BusyRatio, words.Percent(machine.BusyRatio)
	}
	if s.QuotaCores > 0 && s.ThrottledRatio > 0 {
		throttled, quota = words.Percent(s.ThrottledRatio), words.Figures(s.QuotaCores)
	}
	name := part
	if p, ok := record.ProxyOf(part); ok {
		name = "the " + p.Name
	}
	if of > 1 {
		name = fmt.Sprintf("%s, the busiest of %d,", name, of)
	}
	workers := []any{workersWords(len(busy)), name, percents(busy), throttled, quota}
	say := func(k *note.Kind, more ...any) note.Note { return k.Of(slices.Concat(workers, more)...) }
	switch all, most := slices.Min(busy), slices.Max(busy); {
	case all >= fullRatio && inUse >= spareRatio:
		return record.LimitMachine, say(noteFullMachine, state)
	case all >= fullRatio:
		return record.LimitConcurrency, say(noteConcurrency, len(busy), state)
	case s.QuotaCores > 0 && s.ThrottledRatio >= throttledRatio:
		return record.LimitCPU, say(noteCPULimit, state)
	case most >= fullRatio && all < idleRatio*most:
		return record.LimitImbalance, say(noteImbalance, acceptedWords(s), state)
	case mean(wait) >= waitRatio && inUse >= busyRatio:
		return record.LimitMachine, say(noteRunQueue, percents(wait), state)
	case main >= fullRatio:
		return record.LimitMain, noteMainThread.Of(name, words.Percent(main), state)
	}
	return "", note.Note{}
}

func workersWords(n int) string {
	switch n {
	case 1:
		return "the one worker"
	case 2:
		return "both workers"
	}
	return fmt.Sprintf("all %d workers", n)
}

// percents formats shares: "95% and 93%".
func percents(v []float64) string {
	if len(v) > 4 {
		return fmt.Sprintf("%s to %s", words.Percent(slices.Min(v)), words.Percent(slices.Max(v)))
	}
	said := make([]string, len(v))
	for i := range v {
		said[i] = words.Percent(v[i])
	}
	return words.List(said)
}

// acceptedWords lists the connections that each worker accepted, "12 and 4"; nil if unknown.
func acceptedWords(s record.ThreadsSummary) any {
	var said []string
	for _, r := range s.Rows {
		if r.Worker && r.Accepted != nil {
			said = append(said, fmt.Sprint(*r.Accepted))
		}
	}
	if len(said) < 2 {
		return nil
	}
	return words.List(said)
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// limits returns findings of what limits proxies, with the evidence: the busiest worker's share of
// time, or the share of throttled periods.
func limits(o *analysis.Observations) []record.Finding {
	if !o.Plan.Study.Measured(study.MeasureThreads) {
		return nil
	}
	measures := analysis.Defined(o.Plan.Study, threadMeasures(o.Plan.Study))
	var out []record.Finding
	for cell := range o.Plan.Cells {
		all := threads(o, cell)
		for _, part := range study.ProxyParts {
			s, ok := all[part]
			if !ok || s.Limit == "" {
				continue
			}
			evidence := dataplane.FindingBusiestWorker
			if s.Limit == record.LimitCPU {
				evidence = dataplane.FindingThrottled
			}
			f := o.Named(dataplane.FindingLimit+"_"+part, o.Short(cell))
			f.Verdict, f.Warnings = record.VerdictReal, []note.Note{s.Says}
			i := slices.IndexFunc(measures, func(m analysis.Measure) bool { return m.Name == evidence+"_"+part })
			if own, ok := o.Plain(cell, measures[i]); ok && own.Verdict != record.VerdictInvalid {
				f.Estimate, f.Low, f.High, f.Blocks = own.Estimate, own.Low, own.High, own.Blocks
			} else {
				v := o.Values(cell, measures[i])
				f.Estimate = meanFinite(v)
				f.Low, f.High, f.Blocks = f.Estimate, f.Estimate, own.Blocks
			}
			out = append(out, f)
		}
	}
	return out
}

// meanFinite returns the mean of the finite values; 0 if there are none.
func meanFinite(v []float64) float64 {
	v = slices.DeleteFunc(slices.Clone(v), func(x float64) bool { return !stat.Finite(x) })
	if len(v) == 0 {
		return 0
	}
	return mean(v)
}
