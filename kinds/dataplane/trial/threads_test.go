package trial

import (
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/drive/load"
	"github.com/meshtrial/meshtrial/mesh/none"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

func threadsSample(at int64, total uint64, run ...uint64) *observe.ThreadsSample {
	s := &observe.ThreadsSample{AtUnixNS: at, CPU: observe.CPUSample{TotalNS: total, Inode: 5},
		Processes: []observe.ProcessSample{{PID: 10, Command: "envoy", Start: 1}}}
	for i, ns := range run {
		s.Threads = append(s.Threads, observe.ThreadSample{PID: 10, TID: 10 + i, Name: []string{"envoy", "wrk:worker_0", "wrk:worker_1"}[i], Start: 1, RunNS: ns})
	}
	return s
}

// workerMesh is a mesh whose proxies count connections under plain names.
type workerMesh struct{ none.Mesh }

func (workerMesh) WorkerStat(name string) bool { return name == "worker_1" }

func (workerMesh) AcceptedByWorker(rise map[string]float64) map[int]int64 {
	return map[int]int64{1: int64(rise["worker_1"])}
}

func TestThreadsOfATrial(t *testing.T) {
	trial := &trialRun{o: &runner.Options{Study: studytest.Parse(t, studytest.ThreeCells), Mesh: workerMesh{}},
		targets: map[string][]observe.Target{"a": {{Name: record.PartClientProxy}, {Name: record.PartWorker}}}}
	snapshot := func(threads *observe.ThreadsSample) observe.Snapshot {
		return observe.Snapshot{Targets: map[string]observe.Sample{record.PartClientProxy: {Threads: threads}, record.PartWorker: {}}}
	}
	sampled := map[string]edges{"a": {before: snapshot(threadsSample(0, 1e9, 1e8, 4e8, 5e8)), after: snapshot(threadsSample(2e9, 4e9, 2e8, 18e8, 20e8))}}

	out := &record.Trial{}
	trial.o.Study.Measures = []string{study.MeasureCPU}
	trial.threads(out, sampled)
	if out.Threads != nil {
		t.Fatal("threads without being asked for")
	}
	trial.o.Study.Measures = append(trial.o.Study.Measures, study.MeasureThreads)
	trial.threads(out, sampled)
	out.Counters = map[string]map[string]float64{record.PartClientProxy: {"worker_1": 12, "upstream_rq_total": 7}}
	trial.workerConnections(out, record.PartClientProxy, out.Counters[record.PartClientProxy])
	trial.withoutWorkers(out.Counters[record.PartClientProxy])

	got := out.Threads[record.PartClientProxy]
	if len(got.Threads) != 3 || got.CPUS != 3 || got.UnaccountedS > 1e-9 || got.Threads[2].CPU.TotalS() != 1.5 {
		t.Errorf("threads %+v", got)
	}
	if n := got.Threads[2].Accepted; n == nil || *n != 12 {
		t.Errorf("connections of worker 1: %v", n)
	}
	if got.Threads[1].Accepted != nil {
		t.Error("worker 0 has connections that nobody counted")
	}
	if counters := out.Counters[record.PartClientProxy]; len(counters) != 1 || counters["upstream_rq_total"] != 7 {
		t.Errorf("counters %v", counters)
	}
	if w := trial.seen.Unmeasured; len(w) != 1 || w[0] != "threads of the worker were not measured: the observer did not read them" {
		t.Errorf("not measured: %q", w)
	}
}

// The threads of each hand's proxy are separate, with their own limit and connections.
func TestThreadsOfHands(t *testing.T) {
	first, second := record.PartClientProxy, record.OfHand(record.PartClientProxy, 1)
	trial := &trialRun{o: &runner.Options{Study: studytest.Parse(t, studytest.ThreeCells), Mesh: workerMesh{}}, server: &workerRole{},
		targets: map[string][]observe.Target{"a": {{Name: first}}, "b": {{Name: second}}}}
	trial.o.Study.Measures = []string{study.MeasureThreads}
	at := func(name string, threads *observe.ThreadsSample) observe.Snapshot {
		threads.QuotaCores = 2
		return observe.Snapshot{Targets: map[string]observe.Sample{name: {Threads: threads}}}
	}
	sampled := map[string]edges{
		"a": {before: at(first, threadsSample(0, 0, 0, 0, 0)), after: at(first, threadsSample(2e9, 9e8, 1e8, 4e8, 4e8))},
		"b": {before: at(second, threadsSample(0, 0, 0, 0, 0)), after: at(second, threadsSample(2e9, 12e8, 1e8, 5e8, 6e8))},
	}
	out := &record.Trial{Hands: make([]record.Hand, 2)}
	trial.threads(out, sampled)
	read := func(a, b float64) counters {
		stats := func(v float64) observe.ProxyStats {
			return observe.ProxyStats{Taken: time.Unix(100, 0), Uptime: time.Minute, Counters: map[string]float64{"worker_1": v, "c": v}}
		}
		return counters{proxies: map[string]observe.ProxyStats{first: stats(a), second: stats(b)}}
	}
	trial.cell = record.Cell{}
	trial.evidence(out, &load.Result{}, read(1, 10), read(4, 50))
	for name, want := range map[string]int64{first: 3, second: 40} {
		th := out.Threads[name]
		if len(th.Threads) != 3 || th.QuotaCores != 2 || th.Threads[2].Accepted == nil || *th.Threads[2].Accepted != want {
			t.Errorf("%s: %+v", name, th)
		}
	}
	if c := out.Counters[first]; len(out.Threads) != 2 || len(c) != 1 || c["c"] != 43 {
		t.Errorf("%d parts' threads, counters %v", len(out.Threads), out.Counters)
	}
	if th, of := out.ThreadsOf(first); of != 2 || th.CPUS != 1.2 {
		t.Errorf("the busiest of %d: %+v", of, th)
	}
}
