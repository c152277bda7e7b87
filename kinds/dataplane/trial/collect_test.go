package trial

import (
	"github.com/meshtrial/meshtrial/drive/load/loadtest"
	"github.com/meshtrial/meshtrial/kinds/dataplane/verdict"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/testing/studytest"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/drive/load"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/mesh/none"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
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
	trial := &trialRun{
		o: &runner.Options{}, client: &loadRole{pod: site.Pod{Node: "a"}}, server: &workerRole{pod: site.Pod{Node: "b"}},
		targets: map[string][]observe.Target{
			"a": {{Name: record.PartGenerator}},
			"b": {{Name: record.PartWorker}, {Name: record.PartServerProxy}, {Name: record.PartControl + "-0"}, {Name: record.PartControl + "-1"}},
		},
	}
	sampled := map[string]edges{
		"a": {
			before: observe.Snapshot{Machine: machine(10, 0), Targets: map[string]observe.Sample{record.PartGenerator: sample(1e9, 0, &observe.NetSample{Established: 3, ActiveOpens: 100, Retransmits: 1}, nil)}},
			after:  observe.Snapshot{Machine: machine(12, 9e9), Targets: map[string]observe.Sample{record.PartGenerator: sample(2e9, 5e8, &observe.NetSample{Established: 17, ActiveOpens: 116, PassiveOpen: 2, Retransmits: 4}, nil)}},
		},
		"b": {
			before: observe.Snapshot{Machine: machine(10, 0), Targets: map[string]observe.Sample{
				record.PartWorker: sample(5e9, 0, nil, nil), record.PartServerProxy: sample(9e9, 0, nil, nil),
				record.PartControl + "-0": sample(0, 0, nil, nil), record.PartControl + "-1": sample(0, 0, nil, nil)}},
			after: observe.Snapshot{Machine: machine(12, 1e9), Targets: map[string]observe.Sample{
				record.PartWorker:         sample(6e9, 0, nil, &observe.MemorySample{PSSBytes: 10, CgroupBytes: 20, Processes: 1}),
				record.PartServerProxy:    sample(8e9, 0, nil, nil), // restarted
				record.PartControl + "-0": sample(1e8, 0, nil, &observe.MemorySample{PSSBytes: 1, Processes: 1}),
				record.PartControl + "-1": sample(2e8, 0, nil, &observe.MemorySample{PSSBytes: 2, Processes: 1})}},
		},
	}
	out := &record.Trial{}
	trial.costs(out, sampled)
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
			sampled := map[string]edges{
				"a": {before: observe.Snapshot{Targets: map[string]observe.Sample{part: used(0)}}, after: observe.Snapshot{Targets: map[string]observe.Sample{part: used(1e9)}}},
				"b": {before: observe.Snapshot{Targets: map[string]observe.Sample{record.PartWorker: used(0), part: c.before}, Machine: observe.MachineSample{AtUnixNS: 1, CPUs: 1}},
					after: observe.Snapshot{Targets: map[string]observe.Sample{record.PartWorker: used(3e9), part: c.after}, Machine: observe.MachineSample{AtUnixNS: 2e9, CPUs: 1}}},
			}
			out := &record.Trial{Window: record.Window{Seconds: 2}}
			*of.are(out) = 2
			trial.counted(out, sampled, nil)
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
	got := trial.edges(record.Window{Start: start, Seconds: 2}, map[string]edges{
		"b": {before: at(5 * time.Second), after: at(7*time.Second + time.Millisecond)},
		"a": {before: at(-time.Millisecond), after: at(2 * time.Second)},
	})
	want := []verdict.Edge{{Node: "a", Before: -time.Millisecond}, {Node: "b", After: time.Millisecond}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}
