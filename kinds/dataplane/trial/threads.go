package trial

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/study"
)

// workerCounter is a mesh whose proxies report how connections spread over their worker threads.
type workerCounter interface {
	// AcceptedByWorker counts the connections that a proxy accepted, by worker; rise is the
	// increase of its counters.
	AcceptedByWorker(rise map[string]float64) map[int]int64
	// WorkerStat reports whether AcceptedByWorker uses a statistic.
	WorkerStat(name string) bool
}

// threads turns the samples of threads around the window into how long those of request-serving
// parts were runnable without a CPU and, if the study measures threads, into the trial's threads, by
// part, and by part and hand: each proxy has its own limits. It records what cannot be read.
func (t *trialRun) threads(out *record.Trial, sampled map[string]site.Shots) {
	measured := t.o.Study.Measured(study.MeasureThreads)
	out.Waits = map[string]record.Wait{}
	if measured {
		out.Threads = map[string]record.Threads{}
	}
	for node, targets := range t.targets {
		e := sampled[node]
		for _, target := range targets {
			part := partOf(target.Name)
			threads, err := threadsBetween(e.Before.Targets[target.Name], e.After.Targets[target.Name])
			if err != nil {
				if measured { // the trial's measurements do not depend on it
					t.unmeasured("threads of the %s were not measured: %v", strings.ReplaceAll(part, "_", " "), err)
				}
				continue
			}
			sum := out.Waits[part]
			for _, th := range record.Serving(threads.Threads) {
				sum.WaitS += th.WaitS
			}
			sum.Seconds = threads.Seconds
			out.Waits[part] = sum
			name := target.Name
			if part == record.PartControl { // istiod's pods are one part
				name = part
			}
			if measured {
				out.Threads[name] = addThreads(out.Threads[name], threads)
			}
		}
	}
}

func threadsBetween(before, after observe.Sample) (record.Threads, error) {
	if before.Threads == nil || after.Threads == nil {
		return record.Threads{}, fmt.Errorf("the observer did not read them")
	}
	return after.Threads.Since(*before.Threads)
}

// addThreads merges the threads of a part's pods.
func addThreads(a, b record.Threads) record.Threads {
	if a.Seconds == 0 {
		return b
	}
	return record.Threads{
		Seconds: b.Seconds, CPUS: a.CPUS + b.CPUS, Threads: slices.Concat(a.Threads, b.Threads),
		EndedS: a.EndedS + b.EndedS, Ended: a.Ended + b.Ended,
		UnaccountedS: a.UnaccountedS + b.UnaccountedS, UnsureS: a.UnsureS + b.UnsureS,
		QuotaCores: a.QuotaCores + b.QuotaCores,
		Periods:    a.Periods + b.Periods, Throttled: a.Throttled + b.Throttled, ThrottledS: a.ThrottledS + b.ThrottledS,
	}
}

// workerConnections records how many connections each worker thread of a proxy accepted, for the
// proxy of a part or of a part and hand. rise is the increase of its counters.
func (t *trialRun) workerConnections(out *record.Trial, name string, rise map[string]float64) {
	mesh, ok := t.o.Mesh.(workerCounter)
	if !ok {
		return
	}
	byWorker, threads := mesh.AcceptedByWorker(rise), out.Threads[name].Threads
	for i := range threads {
		if n, ok := threads[i].Worker(); ok {
			if c, ok := byWorker[n]; ok {
				threads[i].Accepted = &c
			}
		}
	}
}

// withoutWorkers removes the statistics that workerConnections uses from a part's counters.
func (t *trialRun) withoutWorkers(counters map[string]float64) {
	if mesh, ok := t.o.Mesh.(workerCounter); ok {
		maps.DeleteFunc(counters, func(name string, _ float64) bool { return mesh.WorkerStat(name) })
	}
}
