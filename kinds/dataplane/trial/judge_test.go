package trial

import (
	"github.com/meshtrial/meshtrial/internal/studytest"
	"github.com/meshtrial/meshtrial/load/loadtest"
	"github.com/meshtrial/meshtrial/runner"
	"github.com/meshtrial/meshtrial/site"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/load"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/mesh/none"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/protocol"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// judged is a trial without fault, with everything that judge looks at.
type judged struct {
	trial    *trialRun
	out      *record.Trial
	window   *load.Window
	sampled  map[string]edges
	evidence mesh.Evidence
}

func faultless(t *testing.T) *judged {
	plan := studytest.Plan(t, studytest.ThreeCells)
	start := time.Unix(1_790_000_000, 0).UTC()
	edge := func(at time.Time) observe.Snapshot { return observe.Snapshot{EndNS: at.UnixNano()} }
	j := &judged{
		trial: &trialRun{
			o: &runner.Options{Study: plan.Study, Mesh: none.Mesh{}}, cell: plan.Cells[0].With(nil), spec: load.DefaultSpec("http://server:8080/"),
			skew: map[string]time.Duration{},
		},
		out: &record.Trial{
			Window:   record.Window{Start: start, Seconds: 2, Intervals: 8},
			Warmup:   record.Warmup{Steady: true},
			Pressure: &record.Pressure{},
			Load: &record.Load{
				Scheduled: 10000, Completed: 10000, CPU: record.CPU{UserS: 0.5, SystemS: 0.5},
				Intended: record.Latency{P50: 400, P99: 2000}, Lag: record.Lag{P50: 20, P99: 100},
			},
		},
		window: &load.Window{Account: load.Account{Scheduled: 10000, Completed: 10000, Failed: map[string]int64{}}},
		sampled: map[string]edges{
			"a": {edge(start.Add(time.Millisecond)), edge(start.Add(2*time.Second - time.Millisecond))},
			"b": {edge(start), edge(start.Add(2 * time.Second))},
		},
		evidence: mesh.Evidence{Requests: 12000, Worker: map[string]float64{"requests": 12000, "through_proxy": 0}},
	}
	return j
}

func (j *judged) judge() record.Validity {
	j.trial.judge(j.out, j.window, j.sampled, j.evidence)
	return j.out.Validity
}

// Each fault makes a trial invalid, by the check that is about it and no
// other; what is within the limits does not.
func TestJudge(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*judged)
		fails  string // names of failed checks
		warns  string // part of the only warning
	}{
		{name: "no fault"},
		{name: "the account does not balance", change: func(j *judged) { j.window.Scheduled++ }, fails: "account"},
		{name: "a few failed", change: func(j *judged) {
			j.window.Completed -= 10
			j.window.Failed["reset"] = 10
		}},
		{name: "too many failed", change: func(j *judged) {
			j.window.Completed -= 11
			j.window.Failed["reset"], j.window.Failed["timeout"] = 5, 6
		}, fails: "served"},
		{name: "too many unfinished", change: func(j *judged) {
			j.window.Completed -= 11
			j.window.Unfinished, j.out.Load.Unfinished = 11, 11
		}, fails: "served"},
		{name: "nothing completed", change: func(j *judged) { j.out.Load.Completed = 0 }, fails: "served"},
		{name: "late at the median", change: func(j *judged) { j.out.Load.Lag.P50 = 101 }, fails: "schedule-lag"},
		{name: "a quarter late at the median", change: func(j *judged) { j.out.Load.Lag.P50 = 100 }},
		{name: "late in the tail is weighed beside the effect, later", change: func(j *judged) { j.out.Load.Lag.P99 = 3000 }},
		{name: "generator without CPU to spare", change: func(j *judged) { j.out.Load.CPU.UserS = 1.4 }, fails: "generator-cpu"},
		{name: "two threads have twice the CPU", change: func(j *judged) {
			j.trial.spec.Threads = 2
			j.out.Load.CPU.UserS = 1.4
		}},
		{name: "at rate max neither matters", change: func(j *judged) {
			j.trial.cell[study.FactorRate] = study.RateMax
			j.out.Load.CPU.UserS, j.out.Load.Lag.P50 = 1.9, 1000
		}},
		{name: "first edge early", change: func(j *judged) { j.sampled["b"] = edges{shifted(j.sampled["b"].before, -21), j.sampled["b"].after} }, fails: "cpu-edges"},
		{name: "second edge late", change: func(j *judged) { j.sampled["a"] = edges{j.sampled["a"].before, shifted(j.sampled["a"].after, 22)} }, fails: "cpu-edges"},
		{name: "a node whose clock is ahead", change: func(j *judged) {
			j.sampled["b"] = edges{shifted(j.sampled["b"].before, 5000), shifted(j.sampled["b"].after, 5000)}
			j.trial.skew["b"] = 5 * time.Second
		}},
		{name: "a request that the worker did not see", change: func(j *judged) { j.evidence.Worker["requests"]-- }, fails: "worker-requests"},
		{name: "a request of somebody else's", change: func(j *judged) { j.evidence.Worker["requests"]++ }, fails: "worker-requests"},
		{name: "a request of unknown fate", change: func(j *judged) {
			j.evidence.Worker["requests"]++
			j.evidence.Unknown = 1
		}},
		{name: "TCP has messages, not requests", change: func(j *judged) {
			j.trial.cell[study.FactorProtocol] = protocol.TCP
			j.evidence.Worker["requests"] = 5
		}},
		{name: "what the mesh says", change: func(j *judged) { j.evidence.Worker["through_proxy"] = 1 }, fails: "no-proxy"},
		{name: "counters that could not be read", change: func(j *judged) {
			j.out.Validity.Checks = []record.Check{{Name: "cpu-worker", Detail: "restarted within the window"}}
		}, fails: "cpu-worker"},
		{name: "not steady", change: func(j *judged) { j.out.Warmup = record.Warmup{Why: "not steady after 3 s"} }, warns: "not steady after 3 s"},
		{name: "steal", change: func(j *judged) { j.out.Pressure.StealRatio = 0.031 }, warns: "3.1%"},
		{name: "no pressure known", change: func(j *judged) { j.out.Pressure = nil }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := faultless(t)
			if tt.change != nil {
				tt.change(j)
			}
			v := j.judge()
			var failed []string
			for _, c := range v.Checks {
				if !c.OK {
					failed = append(failed, c.Name)
				}
				if c.Name == "" || c.Detail == "" {
					t.Errorf("a check does not say what it found: %+v", c)
				}
			}
			if got := strings.Join(failed, " "); got != tt.fails || v.Valid != (tt.fails == "") {
				t.Errorf("valid %v, failed %q, want %q", v.Valid, got, tt.fails)
			}
			if warned := strings.Join(v.Warnings, "; "); !strings.Contains(warned, tt.warns) || (tt.warns == "") != (warned == "") {
				t.Errorf("warnings %q, want %q", warned, tt.warns)
			}
		})
	}
}

func shifted(s observe.Snapshot, ms int) observe.Snapshot {
	s.EndNS += int64(ms) * int64(time.Millisecond)
	return s
}

// The evidence has the whole trial's requests and connections, whatever the
// window was.
func TestEvidence(t *testing.T) {
	plan := studytest.Plan(t, studytest.ThreeCells)
	worker := &workerRole{Workload: mesh.Workload{Name: "server-plain", Namespace: "ns"}}
	trial := &trialRun{o: &runner.Options{Study: plan.Study, Mesh: none.Mesh{}}, cell: plan.Cells[1], client: &loadRole{}, server: worker}
	envoy := func(value float64) *observe.ProxyStats {
		return &observe.ProxyStats{Taken: time.Unix(100, 0), Uptime: time.Minute, Counters: map[string]float64{"c": value}}
	}
	sent := loadtest.Result(load.Account{Scheduled: 100, Completed: 90, Failed: map[string]int64{load.FailStatus: 4, load.FailTimeout: 5}, Unfinished: 1}, 8, 3)
	out := &record.Trial{}
	e := trial.evidence(out, sent, counters{server: envoy(5)}, counters{server: envoy(25)})
	if e.Requests != 94 || e.Unknown != 6 || e.Connections != 11 || e.Probes != 0 {
		t.Errorf("%d requests, %d unknown, %d connections, %d probes", e.Requests, e.Unknown, e.Connections, e.Probes)
	}
	if want := (mesh.Endpoint{Service: "server-plain", Namespace: "ns", Port: 8080}); e.Endpoint != want {
		t.Errorf("endpoint %+v", e.Endpoint)
	}
	if e.Client != nil || !maps.Equal(e.Server, map[string]float64{"c": 20}) || e.ServerTotal["c"] != 25 {
		t.Errorf("client %v, server %v of %v", e.Client, e.Server, e.ServerTotal)
	}
	if !maps.Equal(out.Counters[record.PartServerProxy], e.Server) {
		t.Errorf("the trial's record has counters %v", out.Counters)
	}
	// A proxy that began again has counters that fell.
	out = &record.Trial{}
	e = trial.evidence(out, sent, counters{server: envoy(25)}, counters{server: envoy(5)})
	if e.Server != nil || len(out.Validity.Checks) != 1 || out.Validity.Checks[0].Name != "counters-server_proxy" || out.Validity.Checks[0].OK {
		t.Errorf("server %v, checks %+v", e.Server, out.Validity.Checks)
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
			observe.Snapshot{Machine: machine(10, 0), Targets: map[string]observe.Sample{record.PartGenerator: sample(1e9, 0, &observe.NetSample{Established: 3, ActiveOpens: 100, Retransmits: 1}, nil)}},
			observe.Snapshot{Machine: machine(12, 9e9), Targets: map[string]observe.Sample{record.PartGenerator: sample(2e9, 5e8, &observe.NetSample{Established: 17, ActiveOpens: 116, PassiveOpen: 2, Retransmits: 4}, nil)}},
		},
		"b": {
			observe.Snapshot{Machine: machine(10, 0), Targets: map[string]observe.Sample{
				record.PartWorker: sample(5e9, 0, nil, nil), record.PartServerProxy: sample(9e9, 0, nil, nil),
				record.PartControl + "-0": sample(0, 0, nil, nil), record.PartControl + "-1": sample(0, 0, nil, nil)}},
			observe.Snapshot{Machine: machine(12, 1e9), Targets: map[string]observe.Sample{
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
	if len(out.Validity.Checks) != 1 || !slices.ContainsFunc(out.Validity.Checks, names) {
		t.Errorf("checks %+v", out.Validity.Checks)
	}
}

// A window begins as soon as it can be armed, later where pods answer
// slowly, and never so late that the schedule ends before it.
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
