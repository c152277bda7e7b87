package gather

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/advise/advice/variables"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// world is an istiod in a window, as described by its metrics and its observers: means in
// seconds, over 100 s.
type world struct {
	rounds, updatesPerRound, proxies     float64
	debounce, context, queue, push, send float64
	cpu, idle, throttled, busy, locks    float64 // cores, and seconds in a second
	procs, replicas, configBytes         float64
	reconnects                           int64
	rejects                              float64
	levers                               record.Cell
	limits                               map[string]string
	workers                              int                          // of the throttled sidecar
	quota                                float64                      // its limit, cores
	held                                 map[*advice.Quantity]float64 // by its proxies
	headless, listeners                  float64                      // turns for endpoints of headless Services, and pushes of listeners
	unmoved                              float64                      // share of the proxies that a round gives no separate turn
}

const windowS = 100

// healthy returns an istiod that nothing limits.
func healthy() world {
	return world{rounds: 50, updatesPerRound: 3, proxies: 50, debounce: 0.12, context: 0.002, queue: 0.01, push: 0.02,
		send: 0.001,
		cpu:  0.2, idle: 0.01, busy: 0.4, locks: 0.05, procs: 2, replicas: 1, configBytes: 200_000,
		levers: record.Cell{study.FactorDebounceAfter: "100ms", controlplane.FactorDebounceMax: "10s",
			controlplane.FactorPushThrottle: "default", controlplane.FactorIstiodReplicas: "1",
			controlplane.FactorIstiodCPU: "none", controlplane.FactorIstiodMemory: "none", controlplane.FactorEDSDebounce: "true",
			controlplane.FactorSidecarScope:       "none",
			controlplane.FactorDiscoverySelectors: "none", controlplane.FactorRequestLimit: "default",
			controlplane.FactorChange: "virtualservice"}}
}

// with returns the world with other levels of levers.
func (w world) with(pairs ...string) world {
	w.levers = maps.Clone(w.levers)
	for i := 0; i < len(pairs); i += 2 {
		w.levers[pairs[i]] = pairs[i+1]
	}
	return w
}

// run returns a run of one trial in this world.
func (w world) run() Run {
	turns, rounds := w.rounds*w.proxies*(1-w.unmoved), w.rounds*w.replicas
	rises := map[string]float64{
		"pilot_inbound_updates{type=\"config\"}": w.rounds * w.updatesPerRound * w.replicas,
		"pilot_inbound_updates{type=\"eds\"}":    w.rounds * w.updatesPerRound * w.replicas, // counted a second time
		"process_cpu_seconds_total":              w.cpu * windowS,
		"pilot_xds_pushes{type=\"cds\"}":         turns,
		"pilot_xds_push_time_sum{type=\"cds\"}":  turns * (w.push - w.send),
		"pilot_xds_send_time_sum":                turns * w.send,
		"pilot_xds_config_size_bytes_sum{type=\"type.googleapis.com/envoy.config.cluster.v3.Cluster\"}": turns * 10_000,
	}
	if w.headless > 0 {
		rises["pilot_push_triggers{type=\"headlessendpoint\"}"] = w.headless
		rises["pilot_xds_pushes{type=\"lds\"}"] = w.listeners
	}
	if w.rejects > 0 {
		rises["pilot_total_xds_rejects{type=\"cds\"}"] = w.rejects
	}
	for name, of := range map[string][2]float64{"pilot_debounce_time": {rounds, w.debounce},
		"pilot_pushcontext_init_seconds": {rounds, w.context},
		"pilot_proxy_queue_time":         {turns, w.queue}, "pilot_proxy_convergence_time": {turns, w.queue + w.push}} {
		rises[name+"_count"], rises[name+"_sum"] = of[0], of[0]*of[1]
	}
	for _, le := range []float64{0.1, 0.5, 1, 3} {
		under := 0.0
		if le >= 2*(w.queue+w.push) {
			under = turns
		}
		rises[fmt.Sprintf("pilot_proxy_convergence_time_bucket{le=\"%g\"}", le)] = under
	}
	rises["pilot_proxy_convergence_time_bucket{le=\"+Inf\"}"] = turns
	t := record.Trial{ID: "b000-t00", Cell: w.levers, Validity: record.Validity{Valid: true},
		Window: record.Window{Seconds: windowS},
		CPU: map[string]record.CPU{record.PartControl: {UserS: w.cpu * windowS,
			ThrottledS: w.throttled * windowS}},
		Pressure: &record.Pressure{BusyRatio: w.busy},
		Control: &record.Control{Committed: int(w.rounds * w.updatesPerRound), Istiod: rises, IdleSeconds: 10,
			Idle: record.CPU{UserS: 10 * w.idle}, Reconnects: map[string]int64{"storm": w.reconnects},
			IstiodGauges: map[string]float64{"go_sched_gomaxprocs_threads": w.procs,
				"pilot_xds{version=\"1.31\"}": w.proxies, "pilot_services": 100,
				"process_start_time_seconds": 1, "process_resident_memory_bytes": 200e6},
			Profiles: []record.Profile{{Kind: "mutex", Total: int64(w.locks * 5e9), Seconds: 5}}}}
	cell := record.CellSummary{Cell: record.Cell{}, Threads: map[string]record.ThreadsSummary{}}
	for part, limit := range w.limits {
		s := record.ThreadsSummary{Limit: limit, QuotaCores: w.quota, ThrottledRatio: 0.5}
		for i := range w.workers {
			s.Rows = append(s.Rows, record.ThreadRow{Name: fmt.Sprintf("worker_%d", i), Worker: true, UserRatio: 0.6,
				SystemRatio: 0.35})
		}
		cell.Threads[part] = s
	}
	facts := func([]*record.Trial) (map[*advice.Quantity]float64, []string) { return w.held, nil }
	return Run{Dir: "dir", Facts: facts, Record: record.Run{Trials: []record.Trial{t}},
		Findings: record.Findings{Cells: []record.CellSummary{cell},
			Findings: []record.Finding{{Name: "config_bytes", Cell: record.Cell{}, Estimate: w.configBytes,
				Verdict: record.VerdictMeasured}}}}
}

func judged(t *testing.T, r Run) advice.Report {
	t.Helper()
	all, err := OfRun(t.Context(), r)
	if err != nil || len(all) != 1 {
		t.Fatalf("%d cells, %v", len(all), err)
	}
	return advice.Judge(all[0])
}

// undecided returns what is said of a rule that was not decided.
func undecided(t *testing.T, r advice.Report, rule string) advice.Judgement {
	t.Helper()
	i := slices.IndexFunc(r.Undecided, func(j advice.Judgement) bool { return j.Rule == rule })
	if i < 0 {
		t.Fatalf("%s is decided: %+v", rule, r)
	}
	return r.Undecided[i]
}

// planted returns worlds with one limit each, by the rule that must name it.
func planted() map[string]world {
	change := func(f func(*world), levers ...string) world {
		w := healthy().with(levers...)
		f(&w)
		return w
	}
	return map[string]world{
		"debounce_long":     change(func(w *world) { w.debounce = 5 }, study.FactorDebounceAfter, "5s"),
		"debounce_restless": change(func(w *world) { w.rounds, w.updatesPerRound, w.debounce = 10, 100, 9.5 }),
		"debounce_short": change(func(w *world) {
			w.rounds, w.updatesPerRound, w.debounce, w.cpu, w.queue, w.push = 1000, 1, 0.01, 1.2, 0.005, 0.01
		}, study.FactorDebounceAfter, "1ms"),
		"cpu_limit": change(func(w *world) { w.throttled, w.queue, w.push, w.cpu = 0.4, 1.2, 0.4, 0.15 },
			controlplane.FactorIstiodCPU, "200m"),
		"throttle": change(func(w *world) { w.queue, w.push, w.cpu = 0.075, 0.003, 0.1 },
			controlplane.FactorPushThrottle, "1"),
		"locks": change(func(w *world) {
			w.proxies, w.procs, w.queue, w.push, w.cpu, w.locks = 1000, 16, 0.5,
				0.1, 1.5, 40
		}),
		"slow_readers":  change(func(w *world) { w.queue, w.push, w.send = 0.3, 0.5, 0.45 }),
		"saturated_out": change(func(w *world) { w.rounds, w.cpu, w.queue, w.push = 200, 1.9, 0.3, 0.4 }),
		"saturated_in": change(func(w *world) {
			w.rounds, w.updatesPerRound, w.cpu, w.context, w.debounce, w.push = 150, 200, 1.8, 0.6, 0.7, 0.003
		}),
		"no_scope":     change(func(w *world) { w.configBytes = 2.3e6 }),
		"unbalanced":   change(func(w *world) { w.replicas = 2 }, controlplane.FactorIstiodReplicas, "2"),
		"memory_limit": change(func(w *world) {}, controlplane.FactorIstiodMemory, "200Mi"),
		"reconnects":   change(func(w *world) { w.reconnects = 500 }),
		"no_effect":    change(func(w *world) {}, controlplane.FactorChange, controlplane.ChangeNoOp),
		"rejected":     change(func(w *world) { w.rejects = 7 }),
		"headless": change(func(w *world) {
			w.held, w.headless = map[*advice.Quantity]float64{advice.HeadlessListeners: 400,
				advice.HeadlessShare: 0.82}, 2000
			w.listeners = 2000
		}),
		"dns_clusters": change(func(w *world) {
			w.proxies, w.rounds, w.held = 500, 5,
				map[*advice.Quantity]float64{advice.DNSClusters: 31, advice.DNSClustersMean: 30}
		}),
		"workers": change(func(w *world) {
			w.limits, w.workers = map[string]string{"client_proxy": "", "server_proxy": record.LimitConcurrency}, 2
		}),
		"proxy_cpu": change(func(w *world) {
			w.limits, w.workers, w.quota = map[string]string{"client_proxy": record.LimitCPU, "server_proxy": ""}, 2,
				0.5
		}),
	}
}

// The first advice names the planted limit; without a limit there is no advice.
func TestPlanted(t *testing.T) {
	if r := judged(t, healthy().run()); len(r.Advice) > 0 || len(r.RuledOut) < 10 {
		t.Errorf("healthy: %+v", r)
	}
	for name, w := range planted() {
		if name == "unbalanced" {
			continue // distinguishes replicas: see TestAdviceOfReplicas in cli
		}
		r := judged(t, w.run())
		if len(r.Advice) == 0 || r.Advice[0].Rule != name {
			var text strings.Builder
			advice.WriteText(&text, r, true)
			t.Errorf("%s:\n%s", name, text.String())
			continue
		}
		first := r.Advice[0]
		if first.Confidence < 0.6 || len(first.Try) == 0 || len(first.Evidence) == 0 ||
			strings.Contains(first.Says, "unknown") {
			t.Errorf("%s: %+v", name, first)
		}
		if e := first.Expect; e == nil || e.Low > e.High || e.High > 1.05*e.Now || e.Low <= e.Now && e.Now <= e.High {
			t.Errorf("%s: expects %+v", name, e)
		}
	}
}

// Removing evidence never turns a rule that holds into one that is ruled out, or vice versa.
func TestLessEvidenceDecidesNothingElse(t *testing.T) {
	worlds := planted()
	worlds["healthy"] = healthy()
	names := slices.Sorted(maps.Keys(worlds))
	evidence := map[string]advice.Evidence{}
	for _, name := range names {
		all, err := OfRun(t.Context(), worlds[name].run())
		must.OK(t, err)
		evidence[name] = *all[0]
	}
	rapid.Check(t, func(t *rapid.T) {
		one := evidence[rapid.SampledFrom(names).Draw(t, "world")]
		e := &one
		e.Metrics, e.Facts = maps.Clone(e.Metrics), maps.Clone(e.Facts)
		whole := advice.Judge(e)
		for _, q := range advice.Quantities() {
			if rapid.IntRange(0, 4).Draw(t, "drop "+q.Name) == 0 {
				delete(e.Metrics, q)
				delete(e.Facts, q)
			}
		}
		part := advice.Judge(e)
		for _, j := range whole.Advice {
			if slices.ContainsFunc(part.RuledOut, func(o advice.Judgement) bool { return o.Rule == j.Rule }) {
				t.Fatalf("%s held, and is ruled out with less evidence", j.Rule)
			}
		}
		for _, j := range whole.RuledOut {
			if slices.ContainsFunc(part.Advice, func(o advice.Judgement) bool { return o.Rule == j.Rule }) {
				t.Fatalf("%s was ruled out, and holds with less evidence", j.Rule)
			}
		}
		for _, j := range part.Undecided {
			if len(j.Missing) == 0 && len(j.Why) == 0 {
				t.Fatalf("%s is not decided, and does not say why", j.Rule)
			}
		}
	})
}

// No step sets what this istiod lacks, and missing knowledge about it is reported.
func TestVersions(t *testing.T) {
	w := planted()["throttle"]
	for name, c := range map[string]struct {
		known  *variables.Known
		yaml   bool
		lacks  int
		asked  bool
		istiod string
	}{
		"never asked": {nil, false, 0, false, ""},
		"has it": {&variables.Known{Version: "9.9",
			Variables: []variables.Variable{{Name: "PILOT_PUSH_THROTTLE", Default: "0"}}}, true, 0, true, "9.9"},
		"lacks it": {&variables.Known{Version: "9.9", Variables: []variables.Variable{{Name: "PILOT_OTHER"}}},
			false, 1, false, "9.9"},
	} {
		run := w.run()
		run.Known = c.known
		r := judged(t, run)
		if len(r.Advice) == 0 || len(r.Advice[0].Try) != 1 {
			t.Fatalf("%s: %+v", name, r)
		}
		s := r.Advice[0].Try[0]
		if (s.YAML != "") != c.yaml || len(s.Lacks) != c.lacks || s.Checked != c.asked || r.Istiod != c.istiod {
			t.Errorf("%s: %+v", name, s)
		}
		if c.yaml && !strings.Contains(s.YAML, `env: [{name: PILOT_PUSH_THROTTLE, value: "0"}]`) {
			t.Errorf("%s: %s", name, s.YAML)
		}
		if s.Back == "" && c.lacks == 0 || strings.Contains(s.YAML, "default") {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// Metrics that a version does not export are named as such.
func TestAbsentMetrics(t *testing.T) {
	run := healthy().run()
	for key := range run.Record.Trials[0].Control.Istiod {
		if strings.HasPrefix(key, "pilot_debounce_time") {
			delete(run.Record.Trials[0].Control.Istiod, key)
		}
	}
	run.Known = &variables.Known{Version: "9.9", Metrics: []string{"pilot_xds", "pilot_proxy_queue_time"}}
	r := judged(t, run)
	missing := undecided(t, r, "debounce_restless").Missing
	if !slices.ContainsFunc(missing, func(g advice.Gap) bool { return slices.Contains(g.Never, "pilot_debounce_time_sum") }) {
		t.Errorf("%+v", missing)
	}
}

// A run without valid trials is doubted; one without any trials has no evidence.
func TestValidity(t *testing.T) {
	run := planted()["debounce_long"].run()
	sure := judged(t, run).Advice[0].Confidence
	v := &run.Record.Trials[0].Validity
	v.Valid, v.Checks = false, []record.Check{{Name: "driver-schedule", Detail: "late"}}
	r := judged(t, run)
	if r.Doubt == "" || !strings.Contains(r.Doubt, "driver-schedule: late") || len(r.Advice) == 0 ||
		r.Advice[0].Confidence >= sure {
		t.Errorf("%+v", r)
	}
	v.Checks = []record.Check{{Name: "istiod-lived"}}
	if r := judged(t, run); len(r.Advice) > 0 || r.WindowS != 0 {
		t.Errorf("istiod died: %+v", r)
	}
	run.Record.Trials = nil
	if r := judged(t, run); len(r.Advice) > 0 || len(r.Undecided) == 0 {
		t.Errorf("no trials: %+v", r)
	}
}

// Advice shows the run's own measurements of a lever.
func TestEffects(t *testing.T) {
	run := planted()["debounce_long"].run()
	other := run.Record.Trials[0]
	other.Cell = maps.Clone(other.Cell)
	run.Findings.Factors = []record.FactorLevels{{Factor: study.FactorDebounceAfter, Levels: []string{"5s", "100ms"}}}
	run.Findings.Cells[0].Cell = record.Cell{study.FactorDebounceAfter: "5s"}
	other.Cell[study.FactorDebounceAfter] = "100ms"
	run.Record.Trials = append(run.Record.Trials, other)
	run.Findings.Findings = append(run.Findings.Findings,
		record.Finding{Name: "convergence_p50_overhead", Cell: record.Cell{study.FactorDebounceAfter: "100ms"},
			Against: record.Cell{study.FactorDebounceAfter: "5s"}, Estimate: -4.9e6, Low: -5e6, High: -4.8e6,
			Unit:    "us",
			Verdict: record.VerdictReal})
	r := judged(t, run)
	if len(r.Advice) == 0 || len(r.Advice[0].Try) == 0 || len(r.Advice[0].Try[0].Measured) != 1 ||
		r.Advice[0].Try[0].Measured[0].Lever != study.FactorDebounceAfter ||
		r.Advice[0].Try[0].Measured[0].Finding.Estimate != -4.9e6 {
		t.Errorf("%+v", r.Advice)
	}
}

// Two replicas that push to half of the proxies each are equivalent to one that pushes to
// all: a round's meaning for a replica decides, not the total number of rounds.
func TestTwoReplicas(t *testing.T) {
	for name, rule := range map[string]string{"healthy": "", "throttle": "throttle", "debounce_long": "debounce_long"} {
		w := healthy()
		if rule != "" {
			w = planted()[name]
		}
		w = w.with(controlplane.FactorIstiodReplicas, "2")
		w.replicas, w.procs = 2, 2*w.procs
		w.proxies, w.cpu = 2*w.proxies, 2*w.cpu
		r := judged(t, w.run())
		first := ""
		if len(r.Advice) > 0 {
			first = r.Advice[0].Rule
		}
		values := map[string]float64{}
		for _, v := range r.Values {
			values[v.Name] = v.Value
		}
		if first != rule {
			t.Errorf("%s: the first advice is %q: %v", name, first, values)
		}
		if want := w.rounds / windowS; values["rounds_per_s"] < 0.99*want || values["rounds_per_s"] > 1.01*want {
			t.Errorf("%s: %g rounds of a replica, not %g", name, values["rounds_per_s"], want)
		}
		if want := w.updatesPerRound; values["updates_per_round"] < 0.99*want ||
			values["updates_per_round"] > 1.01*want {
			t.Errorf("%s: %g updates in a round, not %g", name, values["updates_per_round"], want)
		}
	}
}

// The total of all replicas does not count for more than each one's value: of ten replicas,
// each of which computes push contexts for a tenth of the time and is throttled for 1% of
// it, none is exhausted.
func TestManyReplicas(t *testing.T) {
	w := healthy().with(controlplane.FactorIstiodReplicas, "10", controlplane.FactorIstiodCPU, "2")
	w.replicas, w.procs, w.proxies = 10, 20, 400
	w.context, w.debounce, w.queue, w.push = 0.2, 0.3, 0.12, 0.003 // 50 rounds in 100 s
	w.updatesPerRound, w.cpu, w.throttled = 30, 2.5, 0.1
	if r := judged(t, w.run()); len(r.Advice) > 0 {
		t.Errorf("%+v", r.Advice)
	}
	w.replicas, w.procs, w.proxies = 1, 2, 40
	w = w.with(controlplane.FactorIstiodReplicas, "1")
	w.context, w.debounce, w.cpu, w.throttled = 1.2, 1.4, 0.9, 0.01
	if r := judged(t, w.run()); len(r.Advice) == 0 || r.Advice[0].Rule != "saturated_in" {
		t.Errorf("%+v", r)
	}
}

// A counter that fell is omitted, with a note: what depends on it is unknown.
func TestCounterFell(t *testing.T) {
	run := planted()["debounce_long"].run()
	run.Record.Trials[0].Control.Istiod["pilot_debounce_time_sum"] = -3
	r := judged(t, run)
	if len(r.Advice) > 0 || !slices.ContainsFunc(r.Notes,
		func(n string) bool { return strings.Contains(n, "pilot_debounce_time_sum") }) {
		t.Errorf("%+v", r)
	}
	undecided(t, r, "debounce_long")
}

// Facts and findings that are not numbers are unknown.
func TestNotANumber(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1)} {
		r := advice.Judge(&advice.Evidence{Facts: map[*advice.Quantity]float64{advice.ConfigBytes: v,
			advice.Throttled: v}, Findings: map[string]record.Finding{"config_bytes": {Estimate: v}}})
		if len(r.Advice) > 0 || len(r.Values) > 0 {
			t.Errorf("%g: %+v", v, r.Values)
		}
		if _, err := json.Marshal(r); err != nil {
			t.Errorf("%g: %v", v, err)
		}
	}
}

// An istiod that pushed nothing is not free of limits: the cost of its pushes is unknown.
func TestNothingPushed(t *testing.T) {
	run := healthy().run()
	counts := run.Record.Trials[0].Control.Istiod
	for key := range counts {
		counts[key] = 0
	}
	r := judged(t, run)
	missing := undecided(t, r, "throttle").Missing
	if len(r.Advice) > 0 || !slices.ContainsFunc(missing, func(g advice.Gap) bool { return g.Name == "queue" }) {
		t.Errorf("%+v, %+v", r.Advice, missing)
	}
}

// The known writes in a run are the study's own; mixed kinds are unknown.
func TestIdleWrites(t *testing.T) {
	for change, want := range map[string]float64{"no-op": 1, "virtualservice": 0, "mixed": -1, "trace": -1} {
		run := healthy().with(controlplane.FactorChange, change).run()
		got := map[*advice.Quantity]float64{advice.IdleWritesShare: -1}
		idleWrites([]*record.Trial{&run.Record.Trials[0]}, windowS, got)
		if got[advice.IdleWritesShare] != want {
			t.Errorf("%s: %v", change, got)
		}
	}
}
