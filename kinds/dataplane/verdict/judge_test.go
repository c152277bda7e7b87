package verdict

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/mesh/istio"
	"github.com/meshtrial/meshtrial/mesh/none"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/rate"
	"github.com/meshtrial/meshtrial/run/verdict"
	"github.com/meshtrial/meshtrial/run/verdict/verdicttest"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/protocol"
	"github.com/meshtrial/meshtrial/testing/must"
)

// seen is a trial with its evidence.
type seen struct {
	trial record.Trial
	seen  Evidence
}

// faultless returns a trial with everything that the rules look at, and no faults.
func faultless() *seen {
	j := &seen{
		trial: record.Trial{
			ID:       "b000-t00",
			Cell:     record.Cell{study.FactorSidecars: study.SidecarsNone, study.FactorRate: "100", study.FactorArrival: study.ArrivalPoisson, study.FactorProtocol: protocol.HTTP1},
			Window:   record.Window{Start: time.Unix(1_790_000_000, 0).UTC(), Seconds: 2, Intervals: 8},
			Warmup:   record.Warmup{Steady: true},
			Pressure: &record.Pressure{},
			Load: &record.Load{
				Scheduled: 10000, Completed: 10000, Within: record.Within{Answered: 10000}, Failed: map[string]int64{}, CPU: record.CPU{UserS: 0.5, SystemS: 0.5},
				Intended: record.LatencyAt(0.5, 400, 0.99, 2000), Lag: record.LatencyAt(0.5, 20, 0.99, 100), Rate: 100,
				Schedule: &record.Schedule{Process: study.ArrivalPoisson, Gaps: 10000, Distance: 0.02, AchievedRatio: 1, AchievedError: 0.01},
			},
		},
		seen: Evidence{
			Loops: 1, CPUs: 1, Connections: 16,
			Edges: []Edge{{Node: "a", Before: time.Millisecond, After: -time.Millisecond}, {Node: "b"}},
			Mesh:  mesh.Evidence{Requests: 12000, Worker: map[string]float64{"requests": 12000, "through_proxy": 0}},
		},
	}
	j.seen.Mesh.Cell = maps.Clone(j.trial.Cell)
	return j
}

// sampled makes a kubelet sample the CPU counters of one part this many seconds apart, in the
// window of two seconds.
func sampled(gap float64) func(*seen) {
	return func(j *seen) {
		j.seen.Edges, j.seen.Source = nil, record.ObservedKubelet
		j.trial.Sampled = map[string]record.Sampled{record.PartWorker: {GapS: 0.4}, record.PartGenerator: {GapS: gap}}
	}
}

// within returns the number of requests answered within a window, and its backlog at both edges.
func within(answered, start, end int64) record.Within {
	return record.Within{Answered: answered, BacklogStart: start, BacklogEnd: end}
}

func (j *seen) judge() record.Validity { return Of(j.trial, j.seen, nil, none.Mesh{}.Verify) }

// wants checks which checks a trial fails, and its only warning.
func (j *seen) wants(t *testing.T, fails string, warns *note.Kind) {
	t.Helper()
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
	if got := strings.Join(failed, " "); got != fails || v.Valid != (fails == "") {
		t.Errorf("failed %q, want %q: %+v", got, fails, v.Checks)
	}
	if warned := v.Warnings; (warns == nil) != (len(warned) == 0) || warns != nil && !warns.In(warned) {
		t.Errorf("warnings %q", warned)
	}
}

// Each fault makes a trial invalid, by its own check and no other; deviations within the limits do
// not.
func TestJudge(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*seen)
		fails  string     // names of failed checks
		warns  *note.Kind // the only warning
	}{
		{name: "no fault"},
		{name: "the account does not balance", change: func(j *seen) { j.trial.Load.Scheduled++ }, fails: "account"},
		{name: "a few failed", change: func(j *seen) {
			j.trial.Load.Completed -= 10
			j.trial.Load.Failed["reset"] = 10
		}},
		{name: "too many failed", change: func(j *seen) {
			j.trial.Load.Completed -= 11
			j.trial.Load.Failed["reset"], j.trial.Load.Failed["timeout"] = 5, 6
		}, fails: "served"},
		{name: "too many unfinished", change: func(j *seen) {
			j.trial.Load.Completed -= 11
			j.trial.Load.Unfinished = 11
		}, fails: "served"},
		{name: "nothing completed", change: func(j *seen) { j.trial.Load.Completed, j.trial.Load.Unfinished = 0, 10000 }, fails: "served"},
		{name: "a backlog that grows", change: func(j *seen) { j.trial.Load.Within = within(9700, 20, 350) }, fails: "backlog"},
		{name: "a backlog that does not", change: func(j *seen) { j.trial.Load.Within = within(10000, 350, 350) }},
		{name: "a few requests in flight", change: func(j *seen) { j.trial.Load.Within = within(10000, 2, 12) }},
		{name: "few requests, by chance", change: func(j *seen) { j.trial.Load.Within = within(40, 0, 16) }},
		{name: "few requests, of which half wait", change: func(j *seen) { j.trial.Load.Within = within(40, 0, 40) }, fails: "backlog"},
		{name: "a burst at the end of the window", change: func(j *seen) {
			j.trial.Cell[study.FactorArrival] = study.ArrivalBurst
			j.seen.Connections, j.trial.Load.Within = 300, within(10000, 0, 300)
		}},
		{name: "at rate max all connections wait", change: func(j *seen) {
			j.trial.Cell[study.FactorRate], j.trial.Load.Schedule = rate.Word, nil
			j.trial.Load.Within = within(10000, 0, 5000)
		}},
		{name: "late beside its own latency: the run decides", change: func(j *seen) { j.trial.Load.Lag = record.LatencyAt(0.5, 1000, 0.99, 3000) }},
		{name: "gaps of another process", change: func(j *seen) { j.trial.Load.Schedule.Distance = 0.116 }, fails: "schedule-fit", warns: noteClumps},
		{name: "gaps that are odd", change: func(j *seen) { j.trial.Load.Schedule.Distance = 0.112 }, warns: noteClumps},
		{name: "few gaps, off by chance", change: func(j *seen) {
			j.trial.Load.Schedule.Gaps, j.trial.Load.Schedule.Distance = 100, 0.18
		}},
		{name: "close together at a high rate", change: func(j *seen) { j.trial.Load.Rate, j.trial.Load.Schedule.Distance = 5000, 0.11 }},
		{name: "gaps that are not even", change: func(j *seen) {
			j.trial.Load.Schedule.Process, j.trial.Load.Schedule.Distance = study.ArrivalUniform, 0.51
		}, fails: "schedule-fit", warns: noteUneven},
		{name: "even gaps with jitter", change: func(j *seen) {
			j.trial.Load.Schedule.Process, j.trial.Load.Schedule.Distance = study.ArrivalBurst, 0.19
		}},
		{name: "another rate", change: func(j *seen) { j.trial.Load.Schedule.AchievedRatio = 0.949 }, fails: "schedule-rate"},
		{name: "no gap of many requests", change: func(j *seen) {
			j.trial.Load.Schedule, j.trial.Load.Autocorrelation = nil, new(float64)
		}, warns: noteNoGaps},
		{name: "one burst has no gap", change: func(j *seen) {
			j.trial.Cell[study.FactorArrival] = study.ArrivalBurst
			j.seen.Connections, j.trial.Load.Schedule, j.trial.Load.Autocorrelation = 10000, nil, new(float64)
		}},
		{name: "generator without CPU to spare", change: func(j *seen) { j.trial.Load.CPU.UserS = 1.4 }, fails: "generator-cpu"},
		{name: "all CPUs are busy", change: func(j *seen) { j.seen.CPUs, j.trial.Load.CPU.UserS = 4, 6.8 }, fails: "generator-cpu"},
		{name: "two threads have twice the CPU", change: func(j *seen) {
			j.seen.Loops, j.seen.CPUs = 2, 2
			j.trial.Load.CPU.UserS = 1.4
		}},
		{name: "at rate max neither matters", change: func(j *seen) {
			j.trial.Cell[study.FactorRate] = rate.Word
			j.trial.Load.CPU.UserS, j.trial.Load.Schedule = 1.9, nil
		}},
		{name: "first edge early", change: func(j *seen) { j.seen.Edges[1].Before = -21 * time.Millisecond }, fails: "cpu-edges"},
		{name: "second edge late", change: func(j *seen) { j.seen.Edges[0].After = 21 * time.Millisecond }, fails: "cpu-edges"},
		{name: "samples of a kubelet", change: sampled(0.5)},
		{name: "samples too far apart", change: sampled(0.51), fails: "cpu-gaps"},
		{name: "a part that the kubelet does not tell", change: func(j *seen) {
			sampled(0.5)(j)
			j.seen.Unread = []record.Check{{Name: "cpu-worker", Detail: "no sample"}}
		}, fails: "cpu-worker"},
		{name: "an istiod that went in the window", change: func(j *seen) {
			j.seen.Control = &verdict.ControlPlane{Before: []string{"istiod-a", "istiod-b"}, After: []string{"istiod-a"}}
		}, fails: verdict.ControlLived},
		{name: "an istiod that stayed", change: func(j *seen) {
			j.seen.Control = &verdict.ControlPlane{Before: []string{"istiod-a"}, After: []string{"istiod-a"}}
		}},
		{name: "a request that the worker did not see", change: func(j *seen) { j.seen.Mesh.Worker["requests"]-- }, fails: "worker-requests"},
		{name: "a request of somebody else's", change: func(j *seen) { j.seen.Mesh.Worker["requests"]++ }, fails: "worker-requests"},
		{name: "a request of unknown fate", change: func(j *seen) {
			j.seen.Mesh.Worker["requests"]++
			j.seen.Mesh.Unknown = 1
		}},
		{name: "TCP has messages, not requests", change: func(j *seen) {
			j.trial.Cell[study.FactorProtocol] = protocol.TCP
			j.seen.Mesh.Worker["requests"] = 5
		}},
		{name: "what the mesh says", change: func(j *seen) { j.seen.Mesh.Worker["through_proxy"] = 1 }, fails: "no-proxy"},
		{name: "counters that could not be read", change: func(j *seen) {
			j.seen.Unread = []record.Check{{Name: "cpu-worker", Detail: "restarted within the window"}}
		}, fails: "cpu-worker"},
		{name: "not steady", change: func(j *seen) { j.trial.Warmup = record.Warmup{Why: "not steady after 3 s"} }, warns: noteUnsteady},
		{name: "steal", change: func(j *seen) { j.trial.Pressure.StealRatio = 0.031 }, warns: verdict.NoteStolen},
		{name: "an extension that is not in force", change: func(j *seen) {
			j.seen.Refused = []record.Check{{Name: "server-envoyfilter-x", Detail: "refused"}}
		}, fails: "server-envoyfilter-x"},
		{name: "what was not measured", change: func(j *seen) { j.seen.Unmeasured = []string{"threads"} }, warns: verdict.NoteUnmeasured},
		{name: "what was not profiled", change: func(j *seen) { j.seen.Unprofiled = []string{"no profiles"} }, warns: verdict.NoteUnprofiled},
		{name: "no pressure known", change: func(j *seen) { j.trial.Pressure = nil }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := faultless()
			if tt.change != nil {
				tt.change(j)
			}
			j.wants(t, tt.fails, tt.warns)
		})
	}
}

// Threads that do not add up to their cgroup make a trial invalid. Differences explained by one
// switch at the wrong moment, or by a slow reading, do not.
func TestCheckThreads(t *testing.T) {
	for _, c := range []struct {
		name string
		in   record.Threads
		ok   bool
	}{
		{"agree", record.Threads{CPUS: 1, UnaccountedS: 0.009}, true},
		{"threads say more", record.Threads{CPUS: 1, UnaccountedS: -0.011}, false},
		{"threads say less", record.Threads{CPUS: 1, UnaccountedS: 0.011}, false},
		{"nearly idle, and something came and went", record.Threads{CPUS: 0.005, UnaccountedS: 0.002}, false},
		{"read slowly", record.Threads{CPUS: 1, UnaccountedS: 0.019, UnsureS: 0.02}, true},
		{"read slowly, and differ by more", record.Threads{CPUS: 1, UnaccountedS: 0.021, UnsureS: 0.02}, false},
		{"read too slowly to tell", record.Threads{CPUS: 1, UnaccountedS: 0.031, UnsureS: 0.2}, false},
	} {
		checks := checkThreads(map[string]record.Threads{record.PartClientProxy: c.in}, nil)
		if len(checks) != 1 || checks[0].OK != c.ok || checks[0].Name != "threads-client_proxy" {
			t.Errorf("%s: %+v", c.name, checks)
		}
	}
}

// A trial's evidence survives storage, whatever its configurations are, and yields the same verdict
// every time.
func TestJudgedAgain(t *testing.T) {
	for name, config := range map[string]string{"none": "", "JSON": `{"configs": [1, 2.5, "é"]}`, "no text": "\xff\xfe\x00"} {
		j := faultless()
		j.trial.Warmup = record.Warmup{Why: "not steady"}
		if config != "" {
			j.seen.Configs = map[string]Dump{record.PartClientProxy: Dump(config)}
		}
		j.trial.Validity = j.judge()
		document, err := json.Marshal(j.seen)
		must.OK(t, err)
		var back Evidence
		if err := json.Unmarshal(document, &back); err != nil || !reflect.DeepEqual(back, j.seen) {
			t.Errorf("%s: %v: %+v", name, err, back)
		}
		c := verdict.Case{Trial: j.trial, Evidence: document, Verify: none.Mesh{}.Verify}
		for range 2 {
			got, _, err := Judge(c)
			if err != nil || !reflect.DeepEqual(got, j.trial) {
				t.Errorf("%s: %v: %+v", name, err, got.Validity)
			}
		}
	}
}

// What could not be read, or was never measured, is evidence too.
func TestEvidenceOfLittle(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*seen)
		fails  string
	}{
		"unread": {func(j *seen) {
			j.seen.Mesh.Worker, j.seen.Unread = nil, []record.Check{{Name: UnreadCounters + record.PartWorker, Detail: "reset"}}
		}, UnreadCounters + record.PartWorker},
		"refused": {func(j *seen) {
			j.trial.Load, j.seen = nil, Evidence{Refused: []record.Check{{Name: "extension", Detail: "not there"}}}
		}, "extension"},
	} {
		j := faultless()
		c.change(j)
		document, err := json.Marshal(j.seen)
		must.OK(t, err)
		got, _, err := Judge(verdict.Case{Trial: j.trial, Evidence: document, Verify: none.Mesh{}.Verify})
		if err != nil || got.Validity.Valid || got.Validity.Checks[0].Name != c.fails {
			t.Errorf("%s: %v: %+v", name, err, got.Validity)
		}
	}
}

// Any evidence file is judged or rejected, also by the mesh's proof.
func FuzzJudge(f *testing.F) {
	j := faultless()
	document, err := json.Marshal(j.seen)
	must.OK(f, err)
	j.seen.Mesh.Proxies = map[string]*mesh.Passed{record.PartServerProxy: {Rise: map[string]float64{"x": 1}, State: &mesh.ProxyState{}}}
	j.seen.Configs = map[string]Dump{record.PartServerProxy: Dump("{}")}
	more, err := json.Marshal(j.seen)
	must.OK(f, err)
	verdicttest.Fuzz(f, Judge, func() []verdict.Case {
		var out []verdict.Case
		for _, verify := range []func(mesh.Evidence) []record.Check{none.Mesh{}.Verify, (&istio.Mesh{}).Verify} {
			loaded, unloaded := faultless().trial, faultless().trial
			unloaded.Load = nil
			out = append(out, verdict.Case{Trial: loaded, Verify: verify}, verdict.Case{Trial: unloaded, Verify: verify})
		}
		return out
	}, string(document), string(more), `{"refused": [{"name": "x"}]}`)
}

// Each limit matters: at its narrowest a faultless trial becomes invalid or gets a warning.
func TestEveryLimitCounts(t *testing.T) {
	for _, limit := range Limits {
		j := faultless()
		j.trial.Threads = map[string]record.Threads{record.PartWorker: {CPUS: 1, UnaccountedS: 0.009}}
		j.trial.Load.Completed, j.trial.Load.Unfinished = 9999, 1
		j.trial.Pressure.StealRatio = 0.01
		j.trial.Load.Schedule.AchievedRatio = 1.04
		j.trial.Others = &record.Others{UnattributedRatio: 0.01}
		j.trial.Pressure.BusyRatio = 0.9
		switch limit {
		case verdict.UnattributedBusy:
			j.trial.Others.UnattributedRatio, j.trial.Pressure.BusyRatio = 0.3, 0.5
		case ScheduleLag, Steady, SteadyCommon:
			continue // package findings
		case scheduleFit, scheduleOdd:
			j.trial.Load.Schedule.Distance = 0.05
		case SendTime:
			j.trial.Load.Rate, j.trial.Load.Schedule.Distance = 1000, 0.07
		case scheduleEven, scheduleEvenOdd:
			j.trial.Load.Schedule.Process, j.trial.Load.Schedule.Distance = study.ArrivalUniform, 0.2
		case backlog:
			j.trial.Load.Within = within(10000, 0, 60)
		case cpuGaps:
			sampled(0.5)(j)
		case handsApart:
			two := ofHands(record.Clock{}, record.Clock{AheadUS: 100})
			j.trial.Hands, j.seen.Planned = two.trial.Hands, j.trial.Load.Scheduled
			j.trial.Hands[0].Completed-- // with one unfinished request
			j.trial.Cell, j.seen.Mesh.Cell = two.trial.Cell, two.seen.Mesh.Cell
		case ThreadsUnsure:
			j.trial.Threads[record.PartWorker] = record.Threads{CPUS: 1, UnaccountedS: 0.02, UnsureS: 0.02}
		case ThreadsLeast:
			j.trial.Threads[record.PartWorker] = record.Threads{CPUS: 0.005, UnaccountedS: 0.0009}
		}
		if v := j.judge(); !v.Valid || len(v.Warnings) > 0 {
			t.Errorf("%s: %+v", limit.Name, v)
		}
		narrow := Of(j.trial, j.seen, verdict.Limits{limit.Name: 0}, none.Mesh{}.Verify)
		if narrow.Valid && len(narrow.Warnings) == 0 {
			t.Errorf("%s: nothing comes of 0", limit.Name)
		}
	}
}

// ofHands returns a faultless trial of two generators with these clock offsets.
func ofHands(before, after record.Clock) *seen {
	j := faultless()
	j.trial.Cell[study.FactorGenerators], j.seen.Mesh.Cell[study.FactorGenerators] = "2", "2"
	j.trial.Hands = []record.Hand{
		{Pod: "a", Node: "n", Connections: 8, Scheduled: 4000, Completed: 4000, CPU: record.CPU{UserS: 0.5}},
		{Pod: "b", Node: "m", Connections: 8, Scheduled: 6000, Completed: 6000, CPU: record.CPU{UserS: 0.5}, Before: before, After: after},
	}
	j.seen.Loops, j.seen.Planned = 2, 10000
	return j
}

// A trial with several generators is valid if all of them sent the whole schedule, simultaneously
// by their clocks.
func TestHands(t *testing.T) {
	clock := func(ahead, wrong float64) record.Clock { return record.Clock{AheadUS: ahead, ErrorUS: wrong} }
	uniform := func(j *seen) {
		j.trial.Cell[study.FactorArrival] = study.ArrivalUniform
		j.trial.Load.Schedule.Process = study.ArrivalUniform
	}
	for _, tt := range []struct {
		name          string
		before, after record.Clock
		change        func(*seen)
		fails         string
		warns         *note.Kind
	}{
		{name: "no fault", before: clock(20, 100), after: clock(50, 100)},
		{name: "one is lost", change: func(j *seen) {
			j.trial.Hands = j.trial.Hands[:1]
			j.trial.Load.Scheduled, j.trial.Load.Completed = 4000, 4000
		}, fails: "hands hands-schedule"},
		{name: "one is lost of a schedule that nobody knows", change: func(j *seen) {
			j.trial.Cell[study.FactorRate] = rate.Word
			j.trial.Hands = j.trial.Hands[:1]
			j.trial.Load.Scheduled, j.trial.Load.Completed, j.trial.Load.Schedule = 4000, 4000, nil
		}, fails: "hands"},
		{name: "all are lost", change: func(j *seen) { j.trial.Hands = nil }, fails: "hands"},
		{name: "one too many", change: func(j *seen) { j.trial.Cell[study.FactorGenerators] = "1" }, fails: "hands"},
		{name: "a request of the schedule was never sent", change: func(j *seen) { j.seen.Planned++ }, fails: "hands-schedule"},
		{name: "a request was counted twice", change: func(j *seen) { j.trial.Hands[0].Scheduled++ }, fails: "hands"},
		{name: "an answer was lost when they were added up", change: func(j *seen) { j.trial.Hands[0].Completed-- }, fails: "hands"},
		{name: "one did nothing as fast as it could", change: func(j *seen) {
			j.trial.Cell[study.FactorRate], j.trial.Load.Schedule, j.seen.Planned = rate.Word, nil, 0
			j.trial.Hands[0].Scheduled, j.trial.Hands[0].Completed = 10000, 10000
			j.trial.Hands[1].Scheduled, j.trial.Hands[1].Completed = 0, 0
		}, fails: "hands"},
		{name: "one has nothing of a short schedule", change: func(j *seen) {
			j.trial.Hands[0].Scheduled, j.trial.Hands[0].Completed = 10000, 10000
			j.trial.Hands[1].Scheduled, j.trial.Hands[1].Completed = 0, 0
		}},
		{name: "a clock that is 5 ms ahead was corrected", before: clock(5000, 100), after: clock(5010, 100)},
		{name: "a clock was set by 5 ms in the trial", before: clock(20, 100), after: clock(5020, 100), fails: "hands-apart"},
		{name: "less than that is known", before: clock(0, 3000), after: clock(5000, 3000), warns: noteClocksApart},
		{name: "and may not have been", before: clock(0, 400), after: clock(300, 800), change: uniform, fails: "hands-apart"},
		{name: "and were not known to be from the start", before: clock(0, 1100), after: clock(0, 100), change: uniform, fails: "hands-apart"},
		{name: "one of them without CPU to spare", change: func(j *seen) { j.trial.Hands[1].CPU.UserS = 1.81 }, fails: "generator-cpu"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := ofHands(tt.before, tt.after)
			if tt.change != nil {
				tt.change(j)
			}
			j.wants(t, tt.fails, tt.warns)
		})
	}
	// With one generator there is no such check, and repeated trials are noted.
	j := faultless()
	j.seen.Repeated = []string{"load pod x: gone"}
	v := j.judge()
	for _, c := range v.Checks {
		if strings.HasPrefix(c.Name, "hands") {
			t.Errorf("a trial of one generator: %+v", c)
		}
	}
	if len(v.Warnings) != 1 || !v.Warnings[0].Is(verdict.NoteRepeated) {
		t.Errorf("%q", v.Warnings)
	}
}

// Pods that ran elsewhere than the cell requires, or at an unknown place, make a trial invalid.
func TestCheckPlacement(t *testing.T) {
	const same, node, zone, free = dataplane.PlacementSameNode, dataplane.PlacementOtherNode, dataplane.PlacementOtherZone, dataplane.PlacementScheduled
	at := func(text string) record.NodeAt {
		name, zone, _ := strings.Cut(text, "@")
		return record.NodeAt{Name: name, Zone: zone}
	}
	for _, c := range []struct{ level, client, server, want string }{
		{"", "", "", ""}, {free, "", "", ""}, {free, "a", "b", ""},
		{same, "a@x", "a@x", "true"}, {same, "a@x", "b@x", "false"}, {same, "", "", "false"},
		{node, "a", "b", "true"}, {node, "a@x", "b@y", "true"}, {node, "a", "a", "false"}, {node, "a", "", "false"},
		{zone, "a@x", "b@y", "true"}, {zone, "a@x", "b@x", "false"}, {zone, "a@x", "b", "false"}, {zone, "a", "b@y", "false"},
	} {
		var s verdict.Sheet
		checkPlacement(&s, record.Trial{Cell: record.Cell{dataplane.FactorPlacement: c.level},
			Nodes: map[string]record.NodeAt{record.PartGenerator: at(c.client), record.PartWorker: at(c.server)}})
		checks, got := s.Validity().Checks, ""
		if len(checks) == 1 {
			got = map[bool]string{true: "true", false: "false"}[checks[0].OK]
			if !strings.Contains(checks[0].Detail, "the client ran on node") && c.client != "" {
				t.Errorf("it says %q", checks[0].Detail)
			}
		}
		if got != c.want {
			t.Errorf("%s, client on %q, server on %q: %q, want %q", c.level, c.client, c.server, got, c.want)
		}
	}
}

// All generators run on the client's node.
func TestCheckPlacementOfHands(t *testing.T) {
	for second, want := range map[string]bool{"a": true, "b": false} {
		var s verdict.Sheet
		checkPlacement(&s, record.Trial{Cell: record.Cell{dataplane.FactorPlacement: dataplane.PlacementOtherNode}, Hands: []record.Hand{{Node: "a"}, {Pod: "two", Node: second}},
			Nodes: map[string]record.NodeAt{record.PartGenerator: {Name: "a"}, record.PartWorker: {Name: "b"}}})
		if c := s.Validity().Checks[0]; c.OK != want || strings.HasSuffix(c.Detail, ", and the generator of pod two on node b") == want {
			t.Errorf("the second on %s: %+v", second, c)
		}
	}
}
