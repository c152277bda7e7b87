package trial

import (
	"testing"

	"github.com/meshtrial/meshtrial/mesh/none"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Threads that do not add up to their cgroup make a trial invalid; what one
// switch at the wrong moment, or a reading that took long, makes up does not.
func TestCheckThreads(t *testing.T) {
	for _, c := range []struct {
		name string
		in   record.Threads
		ok   bool
	}{
		{"agree", record.Threads{CPUS: 1, UnaccountedS: 0.009}, true},
		{"threads say more", record.Threads{CPUS: 1, UnaccountedS: -0.011}, false},
		{"threads say less", record.Threads{CPUS: 1, UnaccountedS: 0.011}, false},
		{"nearly idle", record.Threads{CPUS: 0.005, UnaccountedS: 0.0009}, true},
		{"nearly idle, and something came and went", record.Threads{CPUS: 0.005, UnaccountedS: 0.002}, false},
		{"read slowly", record.Threads{CPUS: 1, UnaccountedS: 0.019, UnsureS: 0.02}, true},
		{"read slowly, and differ by more", record.Threads{CPUS: 1, UnaccountedS: 0.021, UnsureS: 0.02}, false},
		{"read too slowly to tell", record.Threads{CPUS: 1, UnaccountedS: 0.031, UnsureS: 0.2}, false},
		{"read too slowly, and agree", record.Threads{CPUS: 1, UnaccountedS: 0.029, UnsureS: 0.2}, true},
	} {
		checks := checkThreads(map[string]record.Threads{record.PartClientProxy: c.in})
		if len(checks) != 1 || checks[0].OK != c.ok || checks[0].Name != "threads-client_proxy" {
			t.Errorf("%s: %+v", c.name, checks)
		}
	}
}

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
	j := faultless(t)
	j.trial.o.Mesh = workerMesh{}
	j.trial.targets = map[string][]observe.Target{"a": {{Name: record.PartClientProxy}, {Name: record.PartWorker}}}
	with := func(s observe.Snapshot, threads *observe.ThreadsSample) observe.Snapshot {
		s.Targets = map[string]observe.Sample{record.PartClientProxy: {Threads: threads}, record.PartWorker: {}}
		return s
	}
	e := j.sampled["a"]
	j.sampled["a"] = edges{with(e.before, threadsSample(0, 1e9, 1e8, 4e8, 5e8)), with(e.after, threadsSample(2e9, 4e9, 2e8, 18e8, 20e8))}

	j.trial.o.Study.Measures = []string{study.MeasureCPU}
	j.trial.threads(j.out, j.sampled)
	if j.out.Threads != nil {
		t.Fatal("threads without being asked for")
	}
	j.trial.o.Study.Measures = append(j.trial.o.Study.Measures, study.MeasureThreads)
	j.trial.threads(j.out, j.sampled)
	j.out.Counters = map[string]map[string]float64{record.PartClientProxy: {"worker_1": 12, "upstream_rq_total": 7}}
	j.trial.workerConnections(j.out, record.PartClientProxy)

	got := j.out.Threads[record.PartClientProxy]
	if len(got.Threads) != 3 || got.CPUS != 3 || got.UnaccountedS > 1e-9 || got.Threads[2].CPU.TotalS() != 1.5 {
		t.Errorf("threads %+v", got)
	}
	if n := got.Threads[2].Accepted; n == nil || *n != 12 {
		t.Errorf("connections of worker 1: %v", n)
	}
	if got.Threads[1].Accepted != nil {
		t.Error("worker 0 has connections that nobody counted")
	}
	if counters := j.out.Counters[record.PartClientProxy]; len(counters) != 1 || counters["upstream_rq_total"] != 7 {
		t.Errorf("counters %v", counters)
	}
	bad := map[string]bool{}
	for _, c := range j.out.Validity.Checks {
		bad[c.Name] = !c.OK
	}
	if len(bad) != 1 || bad["threads-client_proxy"] {
		t.Errorf("checks %+v", j.out.Validity.Checks)
	}
	if w := j.out.Validity.Warnings; len(w) != 1 || w[0] != "threads of the worker were not measured: the observer did not read them" {
		t.Errorf("warnings %q", w)
	}
}
