package trial

import (
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/drive/load"
	"github.com/meshtrial/meshtrial/drive/load/loadtest"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/kinds/dataplane/verdict"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/mesh/none"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/observe/profile/node"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

// The evidence has the whole trial's requests and connections, whatever the window was.
func TestEvidence(t *testing.T) {
	plan := studytest.Plan(t, studytest.ThreeCells)
	worker := &workerRole{Workload: mesh.Workload{Name: "server-plain", Namespace: "ns"}}
	trial := &trialRun{o: &runner.Options{Study: plan.Study, Mesh: none.Mesh{}}, cell: plan.Cells[1], client: &loadRole{}, server: worker}
	envoy := func(value float64) counters {
		return counters{proxies: map[string]observe.ProxyStats{record.PartServerProxy: {Taken: time.Unix(100, 0), Uptime: time.Minute, Counters: map[string]float64{"c": value}}}}
	}
	sent := loadtest.Result(load.Account{Scheduled: 100, Completed: 90, Failed: map[string]int64{load.FailStatus: 4, load.FailTimeout: 5}, Unfinished: 1}, 8, 3)
	out := &record.Trial{}
	e := trial.evidence(out, sent, envoy(5), envoy(25))
	if e.Requests != 94 || e.Unknown != 6 || e.Connections != 11 || e.Probes != 0 || e.SentS != 1 {
		t.Errorf("%d requests, %d unknown, %d connections, %d probes, in %g s", e.Requests, e.Unknown, e.Connections, e.Probes, e.SentS)
	}
	if want := (mesh.Endpoint{Service: "server-plain", Namespace: "ns", Port: 8080}); e.Endpoint != want {
		t.Errorf("endpoint %+v", e.Endpoint)
	}
	server := e.Read(record.PartServerProxy)
	if e.Read(record.PartClientProxy) != nil || server == nil || !maps.Equal(server.Rise, map[string]float64{"c": 20}) || server.Total["c"] != 25 {
		t.Fatalf("client %v, server %+v", e.Read(record.PartClientProxy), server)
	}
	if !maps.Equal(out.Counters[record.PartServerProxy], server.Rise) {
		t.Errorf("the trial's record has counters %v", out.Counters)
	}
	// The counters of a restarted proxy fall.
	out = &record.Trial{}
	e = trial.evidence(out, sent, envoy(25), envoy(5))
	if unread := trial.seen.Unread; e.Read(record.PartServerProxy) != nil || len(unread) != 1 || unread[0].Name != "counters-server_proxy" || unread[0].OK {
		t.Errorf("server %v, unread %+v", e.Proxies[record.PartServerProxy], unread)
	}
}

func TestCosts(t *testing.T) {
	sample := func(ns, system uint64, net *observe.NetSample, memory *observe.MemorySample) observe.Sample {
		return observe.Sample{CPU: observe.CPUSample{TotalNS: ns, UserNS: ns - system, SystemNS: system}, Net: net, Memory: memory}
	}
	machine := func(second int64, user uint64) observe.MachineSample {
		return observe.MachineSample{AtUnixNS: second * 1e9, CPUs: 2, UserNS: user, IdleNS: uint64(second) * 1e9}
	}
	trial := &trialRun{d: &deployed{Site: &site.Site{}},
		o: &runner.Options{}, client: &loadRole{pod: site.Pod{Node: "a"}}, server: &workerRole{pod: site.Pod{Node: "b"}},
		targets: map[string][]observe.Target{
			"a": {{Name: record.PartGenerator}},
			"b": {{Name: record.PartWorker}, {Name: record.PartServerProxy}, {Name: record.PartControl + "-0"}, {Name: record.PartControl + "-1"}},
		},
	}
	sampled := map[string]site.Shots{
		"a": {
			Before: observe.Snapshot{Machine: machine(10, 0), Targets: map[string]observe.Sample{record.PartGenerator: sample(1e9, 0, &observe.NetSample{Established: 3, ActiveOpens: 100, Retransmits: 1}, nil)}},
			After:  observe.Snapshot{Machine: machine(12, 9e9), Targets: map[string]observe.Sample{record.PartGenerator: sample(2e9, 5e8, &observe.NetSample{Established: 17, ActiveOpens: 116, PassiveOpen: 2, Retransmits: 4}, nil)}},
		},
		"b": {
			Before: observe.Snapshot{Machine: machine(10, 0), Targets: map[string]observe.Sample{
				record.PartWorker: sample(5e9, 0, nil, nil), record.PartServerProxy: sample(9e9, 0, nil, nil),
				record.PartControl + "-0": sample(0, 0, nil, nil), record.PartControl + "-1": sample(0, 0, nil, nil)}},
			After: observe.Snapshot{Machine: machine(12, 1e9), Targets: map[string]observe.Sample{
				record.PartWorker:         sample(6e9, 0, nil, &observe.MemorySample{PSSBytes: 10, CgroupBytes: 20, Processes: 1}),
				record.PartServerProxy:    sample(8e9, 0, nil, nil), // restarted
				record.PartControl + "-0": sample(1e8, 0, nil, &observe.MemorySample{PSSBytes: 1, Processes: 1}),
				record.PartControl + "-1": sample(2e8, 0, nil, &observe.MemorySample{PSSBytes: 2, Processes: 1})}},
		},
	}
	out := &record.Trial{}
	trial.costs(out, observed{sampled: sampled})
	near := func(name string, got, want float64) {
		t.Helper()
		if got < want-1e-9 || got > want+1e-9 {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	near("generator", out.CPU[record.PartGenerator].TotalS(), 1)
	near("generator in the kernel", out.CPU[record.PartGenerator].SystemS, 0.5)
	near("worker", out.CPU[record.PartWorker].TotalS(), 1)
	near("two pods of the control plane", out.CPU[record.PartControl].TotalS(), 0.3)
	near("machine of the server's pod", out.CPU[record.PartMachine].TotalS(), 1)
	if m := out.Memory[record.PartControl]; m.PSSBytes != 3 || m.Processes != 2 {
		t.Errorf("memory of the control plane: %+v", m)
	}
	if out.Memory[record.PartWorker] != (record.Memory{PSSBytes: 10, CgroupBytes: 20, Processes: 1}) {
		t.Errorf("memory of the worker: %+v", out.Memory[record.PartWorker])
	}
	if want := (map[string]record.Connections{record.PartGenerator: {Established: 17, Opened: 16, Accepted: 2, Retransmitted: 3}}); !maps.Equal(out.Connections, want) {
		t.Errorf("connections %v, want %v", out.Connections, want)
	}
	if _, ok := out.CPU[record.PartServerProxy]; ok || out.Pressure == nil {
		t.Errorf("cost of a proxy that restarted: %v, pressure %v", out.CPU, out.Pressure)
	}
	names := func(c record.Check) bool { return c.Name == "cpu-server_proxy" && !c.OK }
	if unread := trial.seen.Unread; len(unread) != 1 || !slices.ContainsFunc(unread, names) {
		t.Errorf("unread %+v", unread)
	}
}

// The use of agents, and of proxies beside the way, covers all of the trial's nodes or is unknown.
// No request passes them, so a restart within the window does not affect the trial otherwise. The
// restart is remembered, since requests may have passed the proxy before.
func TestOnlyWhole(t *testing.T) {
	used := func(ns uint64) observe.Sample {
		return observe.Sample{CPU: observe.CPUSample{TotalNS: ns, UserNS: ns, Inode: 1}}
	}
	gone := observe.Sample{Error: "its cgroup cannot be read any more"}
	for part, of := range map[string]struct {
		noun string
		are  func(*record.Trial) *int
	}{
		record.PartNodeAgent: {"the node agent, which no request passes,", func(t *record.Trial) *int { return &t.NodeAgents }},
		record.PartIdleNode:  {"node proxies that the trial's requests do not pass", func(t *record.Trial) *int { return &t.IdleNodes }},
	} {
		for name, c := range map[string]struct {
			before, after observe.Sample // of the second node's
			lacks         string
		}{
			"both":                {used(1e9), used(2e9), ""},
			"one began anew":      {used(1e9), used(2e8), "on node b: cgroup CPU counters: restarted within the window"},
			"one ended":           {used(1e9), gone, "on node b: at the end of the window: its cgroup cannot be read any more"},
			"one ended before it": {gone, gone, "on node b: at the start of the window: its cgroup cannot be read any more"},
		} {
			one := observe.Target{Name: part, MayEnd: true}
			trial := &trialRun{o: &runner.Options{Study: studytest.Plan(t, studytest.ThreeCells).Study, Mesh: nodeMesh{}}, d: &deployed{Site: &site.Site{}}, server: &workerRole{pod: site.Pod{Node: "b"}},
				targets: map[string][]observe.Target{"a": {one}, "b": {{Name: record.PartWorker}, one}}}
			sampled := map[string]site.Shots{
				"a": {Before: observe.Snapshot{Targets: map[string]observe.Sample{part: used(0)}}, After: observe.Snapshot{Targets: map[string]observe.Sample{part: used(1e9)}}},
				"b": {Before: observe.Snapshot{Targets: map[string]observe.Sample{record.PartWorker: used(0), part: c.before}, Machine: observe.MachineSample{AtUnixNS: 1, CPUs: 1}},
					After: observe.Snapshot{Targets: map[string]observe.Sample{record.PartWorker: used(3e9), part: c.after}, Machine: observe.MachineSample{AtUnixNS: 2e9, CPUs: 1}}},
			}
			out := &record.Trial{Window: record.Window{Seconds: 2}}
			*of.are(out) = 2
			trial.counted(out, observed{sampled: sampled}, nil)
			cpu, whole := out.CPU[part]
			if whole != (c.lacks == "") || whole != (*of.are(out) == 2) || whole && cpu.TotalS() != 2 || out.CPU[record.PartWorker].TotalS() != 3 {
				t.Errorf("%s, %s: %d of them, CPU %v", part, name, *of.are(out), out.CPU)
			}
			if anew := trial.anew["b"]; (anew != nil) != (part == record.PartIdleNode && !whole) || trial.anew["a"] != nil {
				t.Errorf("%s, %s: anew were %v", part, name, trial.anew)
			}
			said := slices.DeleteFunc(trial.seen.Unmeasured, func(text string) bool { return strings.HasPrefix(text, "threads of the ") })
			var want []string
			if c.lacks != "" {
				want = []string{"CPU and memory of " + of.noun + " were not measured: " + c.lacks}
			}
			if !slices.Equal(said, want) || len(trial.seen.Unread) > 0 {
				t.Errorf("%s, %s: it says %q, unread %v", part, name, said, trial.seen.Unread)
			}
		}
	}
}

// A window begins as soon as it can be armed, later if pods answer slowly, and never so late that
// the schedule ends before it.
func TestFirstInterval(t *testing.T) {
	begin := time.Unix(1000, 0)
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	for _, tt := range []struct {
		finished          int
		now               time.Time
		interval, slowest time.Duration
		want              int
	}{
		{4, at(1005), 250 * time.Millisecond, 5 * time.Millisecond, 5},
		{4, at(1180), 250 * time.Millisecond, 5 * time.Millisecond, 6},
		{4, at(1005), 250 * time.Millisecond, 100 * time.Millisecond, 6},
		{10, at(1010), 100 * time.Millisecond, 0, 11},
		{10, at(1010), 100 * time.Millisecond, 200 * time.Millisecond, 17},
		{10, at(1010), 100 * time.Millisecond, 5 * time.Second, 10 + lateIntervals},
		{0, at(900), 100 * time.Millisecond, 0, 10},
		{3, at(-5000), 250 * time.Millisecond, 0, 4},
	} {
		if got := firstInterval(tt.finished, begin, tt.now, tt.interval, tt.slowest); got != tt.want {
			t.Errorf("%+v: %d", tt, got)
		}
	}
}

// Edges are given by the generator's clock, whatever a node's clock says.
func TestEdges(t *testing.T) {
	start := time.Unix(1_790_000_000, 0).UTC()
	at := func(d time.Duration) observe.Snapshot { return observe.Snapshot{EndNS: start.Add(d).UnixNano()} }
	trial := &trialRun{skew: map[string]time.Duration{"b": 5 * time.Second}}
	got := trial.edges(record.Window{Start: start, Seconds: 2}, map[string]site.Shots{
		"b": {Before: at(5 * time.Second), After: at(7*time.Second + time.Millisecond)},
		"a": {Before: at(-time.Millisecond), After: at(2 * time.Second)},
	})
	want := []verdict.Edge{{Node: "a", Before: -time.Millisecond}, {Node: "b", After: time.Millisecond}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

// planeMesh is a mesh whose control plane has the pods of [proxyOn].
type planeMesh struct{ mesh.Mesh }

func (planeMesh) Name() string                               { return "istio" }
func (planeMesh) ControlPlane() (namespace, selector string) { return "mesh", "app=proxy" }

// The use of some replicas of the control plane does not pass for the use of all.
func TestWholeControl(t *testing.T) {
	for node, whole := range map[string]bool{"seen": true, "unseen": false} {
		second := proxyOn(node, true)
		second.Name = "second"
		s := &site.Site{Kube: fakecluster.New(proxyOn("seen", true), second), Observers: map[string]observe.Client{"seen": {HTTPClient: http.DefaultClient}}}
		must.OK(t, must.Err(s.FindControlPlane(t.Context(), planeMesh{})))
		trial := &trialRun{d: &deployed{Site: s}}
		out := &record.Trial{
			CPU:     map[string]record.CPU{record.PartControl: {UserS: 1}, record.PartWorker: {UserS: 1}, record.PartUnattributed: {UserS: 1}},
			Memory:  map[string]record.Memory{record.PartControl: {PSSBytes: 1}, record.PartWorker: {PSSBytes: 1}},
			Waits:   map[string]record.Wait{record.PartControl: {WaitS: 1}},
			Threads: map[string]record.Threads{record.PartControl: {Seconds: 1}},
		}
		trial.wholeControl(out)
		_, cpu := out.CPU[record.PartControl]
		_, memory := out.Memory[record.PartControl]
		if cpu != whole || memory != whole || len(out.Waits) == 1 != whole || len(out.Threads) == 1 != whole || len(out.CPU) < 2 || len(out.Memory) < 1 {
			t.Errorf("second replica %s: %+v", node, out)
		}
		if told := strings.Join(trial.seen.Unmeasured, "\n"); whole != (told == "") || !whole && !strings.Contains(told, "no observer runs beside second on node unseen") {
			t.Errorf("second replica %s: told %q", node, told)
		}
	}
}

// CPU counts as profiled only if perf sampled at both edges.
func TestProfiledCPU(t *testing.T) {
	sample := func(at int64, user float64) observe.Snapshot {
		return observe.Snapshot{Targets: map[string]observe.Sample{record.PartClientProxy: {AtUnixNS: at, CPU: observe.CPUSample{TotalNS: uint64(user * 1e9), UserNS: uint64(user * 1e9)}}}}
	}
	var trial trialRun
	for _, tt := range []struct {
		name    string
		began   int64
		seconds float64
		known   bool
	}{
		{"within", 9e9, 5, true}, {"it began late", 10.5e9, 5, false}, {"it ended early", 9e9, 2, false}, {"it never said", 0, 5, false},
	} {
		p := record.Profiled{Part: record.PartClientProxy}
		trial.profiledCPU(&p, sample(10e9, 1), sample(12e9, 2), node.Answer{BeganUnixNS: tt.began, Seconds: tt.seconds})
		if (p.CPU != nil) != tt.known || tt.known && (p.CPUSeconds != 2 || p.CPU.TotalS() != 1) || !tt.known && len(p.Notes) == 0 {
			t.Errorf("%s: %+v", tt.name, p)
		}
	}
}

// The CPU that decides whether a trial is steady is that of its parts, without the control plane,
// whose activity is irregular.
func TestCPUShare(t *testing.T) {
	shot := func(start int64, totals map[string]uint64) observe.Snapshot {
		s := observe.Snapshot{StartNS: start, Targets: map[string]observe.Sample{}}
		for name, ns := range totals {
			s.Targets[name] = observe.Sample{CPU: observe.CPUSample{TotalNS: ns, UserNS: ns}}
		}
		return s
	}
	before := shot(1e9, map[string]uint64{record.PartWorker: 5e8, record.PartGenerator: 1e8, record.PartControl + "-0": 0})
	for _, tt := range []struct {
		name  string
		after observe.Snapshot
		want  float64
	}{
		{"two parts", shot(3e9, map[string]uint64{record.PartWorker: 1e9, record.PartGenerator: 6e8, record.PartControl + "-0": 2e9}), 0.5},
		{"a part that restarted", shot(3e9, map[string]uint64{record.PartWorker: 4e8}), math.NaN()},
		{"no time between", shot(1e9, map[string]uint64{record.PartWorker: 1e9}), math.NaN()},
	} {
		if got := cpuShare(before, tt.after); math.Abs(got-tt.want) > 1e-9 || math.IsNaN(got) != math.IsNaN(tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
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
	trial := &trialRun{o: &runner.Options{Study: studytest.Parse(t, studytest.ThreeCells), Mesh: workerMesh{}},
		targets: map[string][]observe.Target{"a": {{Name: record.PartClientProxy}, {Name: record.PartWorker}}}}
	snapshot := func(threads *observe.ThreadsSample) observe.Snapshot {
		return observe.Snapshot{Targets: map[string]observe.Sample{record.PartClientProxy: {Threads: threads}, record.PartWorker: {}}}
	}
	sampled := map[string]site.Shots{"a": {Before: snapshot(threadsSample(0, 1e9, 1e8, 4e8, 5e8)), After: snapshot(threadsSample(2e9, 4e9, 2e8, 18e8, 20e8))}}

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
	sampled := map[string]site.Shots{
		"a": {Before: at(first, threadsSample(0, 0, 0, 0, 0)), After: at(first, threadsSample(2e9, 9e8, 1e8, 4e8, 4e8))},
		"b": {Before: at(second, threadsSample(0, 0, 0, 0, 0)), After: at(second, threadsSample(2e9, 12e8, 1e8, 5e8, 6e8))},
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
