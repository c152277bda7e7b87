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
		return stat.Average(workers(th, func(t record.Thread) float64 { return t.WaitS }))
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

// workers returns a figure of each of a proxy's workers, in seconds, as a share of time.
func workers(th record.Threads, seconds func(record.Thread) float64) []float64 {
	var out []float64
	for _, t := range th.Threads {
		if _, ok := t.Worker(); ok {
			out = append(out, seconds(t)/th.Seconds)
		}
	}
	return out
}

// workersBusy returns the shares of time for which a proxy's workers ran.
func workersBusy(th record.Threads) []float64 {
	return workers(th, func(t record.Thread) float64 { return t.CPU.TotalS() })
}

// imbalance returns the excess of the busiest worker over the mean, as a share of the mean; NaN for
// fewer than two.
func imbalance(busy []float64) float64 {
	if len(busy) < 2 || stat.Average(busy) <= 0 {
		return math.NaN()
	}
	return slices.Max(busy)/stat.Average(busy) - 1
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
		proxies := map[int]bool{} // processes with worker threads
		for _, t := range th.Threads {
			if _, ok := t.Worker(); ok {
				proxies[t.PID] = true
			}
		}
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
	ran := []any{workersWords(len(busy)), name, percents(busy), throttled, quota}
	say := func(k *note.Kind, more ...any) note.Note { return k.Of(slices.Concat(ran, more)...) }
	switch all, most := slices.Min(busy), slices.Max(busy); {
	case all >= fullRatio && inUse >= spareRatio:
		return record.LimitMachine, say(noteFullMachine, state)
	case all >= fullRatio:
		return record.LimitConcurrency, say(noteConcurrency, len(busy), state)
	case s.QuotaCores > 0 && s.ThrottledRatio >= throttledRatio:
		return record.LimitCPU, say(noteCPULimit, state)
	case most >= fullRatio && all < idleRatio*most:
		return record.LimitImbalance, say(noteImbalance, acceptedWords(s), state)
	case stat.Average(wait) >= waitRatio && inUse >= busyRatio:
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
			} else if v := slices.DeleteFunc(slices.Clone(o.Values(cell, measures[i])), func(x float64) bool { return !stat.Finite(x) }); len(v) > 0 {
				f.Estimate, f.Blocks = stat.Average(v), own.Blocks
				f.Low, f.High = f.Estimate, f.Estimate
			}
			out = append(out, f)
		}
	}
	return out
}

// waitingMeasures divide the mean latency into waiting for a CPU and the rest. Unlike percentiles,
// means add up.
func waitingMeasures() []analysis.Measure {
	mean := func(t *record.Trial) float64 {
		if t.Load == nil || t.Load.Rate.IsMax() || t.Load.Completed <= 0 {
			return math.NaN()
		}
		return analysis.Positive(t.Load.Intended.Mean)
	}
	out := []analysis.Measure{
		analysis.MeasureOf(dataplane.FindingMean, func(_ *analysis.Observations, t *record.Trial) float64 { return mean(t) }),
		analysis.MeasureOf(dataplane.FindingWaiting, func(_ *analysis.Observations, t *record.Trial) float64 { return waiting(t) }),
		analysis.MeasureOf(dataplane.FindingService, func(_ *analysis.Observations, t *record.Trial) float64 { return mean(t) - waiting(t) }),
	}
	out[0].Timed, out[2].Timed = true, true
	return out
}

// waiting returns the run-queue wait of the threads that serve a trial's requests, in its proxies
// and the workload, in microseconds per request. A thread wakes up for about one request if the
// rate is far below its capacity. If a wake-up serves several requests, each of them waits as long,
// and the result is too low. It is NaN if it was not read, or if the schedule does not set the
// rate.
func waiting(t *record.Trial) float64 {
	if t.Load == nil || t.Load.Rate.IsMax() || t.Load.AnsweredWithin() <= 0 || t.Waits == nil {
		return math.NaN()
	}
	sum := 0.0
	for part, w := range t.Waits {
		if _, proxy := record.ProxyOf(part); (proxy || part == record.PartWorker) && w.Seconds > 0 {
			sum += w.WaitS / w.Seconds
		}
	}
	return sum * t.Window.Seconds * 1e6 / float64(t.Load.AnsweredWithin())
}
