package findings

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Outcomes that depend on the clients' own lag are not judged; everything else is.
func TestScenarioLag(t *testing.T) {
	// The clients stall for 300 ms at 1.5 s: 30 requests leave at 1.8 s, of which one fails.
	stopped := func(due int64) int64 {
		if due >= 1500*ms && due < 1800*ms {
			return 1800*ms - due
		}
		return 0
	}
	run := scenarioRun(t, fourSeconds, 1, each(made{proxies: true, late: stopped, fail: failIn(1600, 1610, ledger.OutcomeStatus, 210),
		spoil: func(trial *record.Trial) { trial.Scenario.Lag = record.LatencyAt(0.5, 2, 0.99, 280_000, 1, 300_000) }}))
	for _, c := range []struct {
		e    study.Expr
		want string
	}{
		{study.Expr{Text: `total.failed == 0`}, "inconclusive"},
		{study.Expr{Text: `total.latency_max < 100.0`}, "inconclusive"},
		{study.Expr{Text: `latency_p99 < 100.0`, Timed: true}, "inconclusive"},
		{study.Expr{Text: `total.latency_max < 500.0`}, "inconclusive"}, // the failed one is infinitely late
		{study.Expr{Text: `total.answered_max < 500.0`}, "pass"},
		{study.Expr{Text: `total.answered_max < 100.0`}, "inconclusive"},
		{study.Expr{Text: `total.latency_p50 < 50.0`}, "pass"},
		{study.Expr{Text: `window("start").latency_max < 100.0`}, "pass"},
		{study.Expr{Text: `total.failed > 5`}, "fail"},
		{study.Expr{Text: `rate > 60.0`, Timed: true, After: "gone", Within: 1e9}, "pass"},
		{study.Expr{Text: `total.answered >= 399`}, "pass"},
		{study.Expr{Text: `ledger.reconciled && ledger.orphans == 0`}, "pass"},
	} {
		a := asked(t, run, c.e)
		if a.Outcome != c.want {
			t.Errorf("%s: %s, %q; want %s", c.e.Text, a.Outcome, a.Detail, c.want)
		}
		if c.want == "inconclusive" && !strings.Contains(a.Detail, "the clients themselves may have sent 29 requests late, by up to 300 ms") {
			t.Errorf("%s: the detail does not say who was late: %q", c.e.Text, a.Detail)
		}
	}
	// If the clients were late by at most 20 ms, requests that left 300 ms late had no connection,
	// and count.
	full := scenarioRun(t, fourSeconds, 1, each(made{proxies: true, late: stopped, spoil: func(trial *record.Trial) { trial.Scenario.Lag = record.LatencyAt(0.99, 900, 1, 20_000) }}))
	for text, want := range map[string]string{`total.latency_max < 100.0`: "fail", `window("gone").rate > 95.0`: "pass"} {
		if a := asked(t, full, study.Expr{Text: text}); a.Outcome != want {
			t.Errorf("%s: %s, %q; want %s", text, a.Outcome, a.Detail, want)
		}
	}
	// A lag within the resolution of windows decides nothing, whatever left late for lack of a
	// connection.
	quiet := scenarioRun(t, fourSeconds, 1, each(made{proxies: true, late: stopped, spoil: func(trial *record.Trial) { trial.Scenario.Lag = record.LatencyAt(0.99, 900, 1, 9_000) }}))
	if a := asked(t, quiet, study.Expr{Text: `total.latency_max < 100.0`}); a.Outcome != "fail" {
		t.Errorf("%s, %q; want fail", a.Outcome, a.Detail)
	}
}

// A cell that skips a step is not judged by it, and others are.
func TestScenarioSkips(t *testing.T) {
	text := strings.Replace(fourSeconds, "planted: {outlier_detection: off,", "planted: {skip: sick, outlier_detection: off,", 1)
	run := scenarioRun(t, text, 1, each(made{proxies: true, events: func(trial *record.Trial) []record.Event { return inTime(trial)[:1] }}))
	f := analyze(t, run)
	if got := scenarioOf(t, f, "planted"); got.Verdict != record.VerdictPass || len(got.Windows) != 2 {
		t.Errorf("the cell that skips it came to %s, with %d windows: %+v", got.Verdict, len(got.Windows), got.Trials)
	}
	if got := scenarioOf(t, f, "good"); got.Verdict != record.VerdictInconclusive || !strings.Contains(strings.Join(got.Trials[0].Why, " "), `step "sick" did not happen`) {
		t.Errorf("the cell that does not came to %s: %+v", got.Verdict, got.Trials)
	}
}

// Steps that affect some workers of a service change what arithmetic expects of all.
func TestScenarioExpectsOfSome(t *testing.T) {
	// Two workers, each with 4 places of 10 ms, have capacity for 800 per second.
	for name, c := range map[string]struct {
		step     string
		capacity float64
		replicas int
		failing  float64
	}{
		"slower":         {`worker: {service: bar, pick: 1, set: {service_time: {mean: 40ms}}}`, 500, 2, 0},
		"all slower":     {`worker: {service: bar, set: {service_time: {mean: 40ms}}}`, 200, 2, 0},
		"narrower":       {`worker: {service: bar, pick: 1, set: {concurrency: 1}}`, 500, 2, 0},
		"no bound":       {`worker: {service: bar, pick: 1, set: {concurrency: 0}}`, 0, 0, 0},
		"failing":        {`worker: {service: bar, pick: 1, set: {failures: [{share: 50%}]}}`, 800, 2, 0.25},
		"one not ready":  {`worker: {service: bar, pick: 1, set: {ready: false}}`, 400, 1, 0},
		"one paused":     {`process: {of: worker, service: bar, pick: 1, do: pause}`, 800, 2, 0},
		"cut from one":   {`network: {from: clients, to: bar, pick: 1, cut: true}`, 400, 2, 0.5},
		"istiod is away": {`process: {of: istiod, do: pause}`, 800, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			begin, rest, _ := strings.Cut(fourSeconds, "  steps:")
			_, end, _ := strings.Cut(rest, "variants:")
			text := begin + "  steps:\n  - {name: gone, at: 1s, for: 1s, " + c.step + "}\nvariants:" + end
			run := scenarioRun(t, text, 1, each(made{proxies: true, events: func(trial *record.Trial) []record.Event {
				return []record.Event{stepEvent(trial, "gone", "worker", 1000*ms), stepEvent(trial, "gone", "end worker", 2000*ms)}
			}}))
			s := scenarioOf(t, analyze(t, run), "planted") // without retries
			e := s.Windows[1].Expected
			if e.CapacityRPS != c.capacity || e.Replicas != c.replicas || e.ErrorShare != c.failing {
				t.Errorf("capacity %v of %d replicas, share failing %v; want %v of %d, %v", e.CapacityRPS, e.Replicas, e.ErrorShare, c.capacity, c.replicas, c.failing)
			}
			if after := s.Windows[2].Expected; after.CapacityRPS != 800 || after.ErrorShare != 0 {
				t.Errorf("after the step: %+v", after)
			}
		})
	}
}

// Keys answered by another endpoint than before a window have moved.
func TestScenarioMoves(t *testing.T) {
	s := &trialScenario{bounds: []boundary{{at: 0}, {at: 100}, {at: 200}}, windows: make([]record.ScenarioWindow, 3)}
	add := func(at int64, key int, host string) {
		s.requests = append(s.requests, sent{at: at, ok: host != "", key: key, host: host})
	}
	add(0, 1, "a")
	add(1, 2, "a")
	add(2, 3, "b")
	add(3, 3, "a") // within a window the last counts
	add(100, 1, "a")
	add(101, 2, "b")
	add(102, 3, "")  // failed
	add(103, 4, "b") // not seen before
	add(104, -1, "b")
	add(200, 1, "a")
	add(201, 2, "a")
	add(202, 3, "b") // compared with the window before the last
	add(203, 4, "b")
	s.move()
	for i, want := range [][2]int64{{0, 0}, {2, 1}, {4, 2}} {
		if w := s.windows[i]; w.Keys != want[0] || w.MovedKeys != want[1] {
			t.Errorf("window %d: %d of %d keys moved, want %d of %d", i, w.MovedKeys, w.Keys, want[1], want[0])
		}
	}
	if key, host := keyOf(&ledger.Request{ID: "mm-b000-t00-1-2042", Proxies: []ledger.ProxyEntry{
		{Side: ledger.SideClient, Service: "clients", Host: "10.0.0.1:80"}, {Side: ledger.SideServer, Service: "bar", Host: "127.0.0.1:80"}}}); key != 42 || host != "10.0.0.1:80" {
		t.Errorf("key %d at %s", key, host)
	}
	if key, _ := keyOf(&ledger.Request{ID: "mm-none"}); key != -1 {
		t.Errorf("a request without a number has the key %d", key)
	}
}
