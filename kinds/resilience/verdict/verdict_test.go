package verdict

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/verdict"
	"github.com/meshtrial/meshtrial/run/verdict/verdicttest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// judged holds everything that a trial is judged by.
type judged struct {
	trial  record.Trial
	events []record.Event
	seen   Evidence
	limits verdict.Limits
}

const ms = int64(time.Millisecond)

// good returns a faultless trial.
func good() *judged {
	ok := func(name string) record.Check { return record.Check{Name: name, OK: true, Detail: "as the cell says"} }
	return &judged{
		trial: record.Trial{ID: "b000-t00", Scenario: &record.Scenario{Scheduled: 100, Completed: 90, Failed: map[string]int64{"timeout": 7}, Unfinished: 3,
			Lag: record.LatencyAt(0.5, 20, 0.99, 400, 1, 2000)}},
		events: []record.Event{
			{Kind: "step", Step: "gone", Op: "remove", Object: "bar-1", PlannedNS: 1000 * ms, SentNS: 1001 * ms, Proof: "the EndpointSlices of bar have 1 endpoints without it"},
			{Kind: "step", Step: "gone", Op: "end remove", Object: "bar-1", PlannedNS: 2000 * ms, SentNS: 2001 * ms},
		},
		seen: Evidence{
			Debounce: &Debounce{Level: "1s", Restarted: true, Took: 2 * time.Second, Checks: []record.Check{ok("env"), ok("env")}},
			Policies: []record.Check{ok("retries")},
			Proxies:  []Proxy{{Pod: "front-1", Checks: []record.Check{ok("circuit-breaker"), ok("outlier")}}, {Pod: "front-2", Checks: []record.Check{ok("circuit-breaker"), ok("outlier")}}},
			Collected: &Collected{Logged: 100, Lines: ledger.Lines{Entries: 300, Other: 5, Foreign: 2},
				Missed:      []Missed{{Of: "counters", Error: "busy", AtNS: 5000 * ms, SinceNS: 3900 * ms, Every: time.Second}},
				Clocks:      map[string]Clock{"node-1": {Ahead: 3 * time.Millisecond, Bound: 200 * time.Microsecond}},
				ClocksAfter: map[string]Clock{"node-1": {Ahead: 3100 * time.Microsecond, Bound: 200 * time.Microsecond}},
				Ledger:      Ledger{Requests: 100, Reconciled: true}},
		},
	}
}

func (j *judged) verdict() record.Validity { return Of(j.trial, j.events, j.seen, j.limits) }

// failing returns the names of failed checks.
func failing(v record.Validity) []string {
	var out []string
	for _, c := range v.Checks {
		if !c.OK {
			out = append(out, c.Name)
		}
	}
	return out
}

func TestOf(t *testing.T) {
	lacks := record.Check{Name: "outlier", Detail: "no outlier detection"}
	for _, c := range []struct {
		name   string
		change func(*judged)
		fails  string     // the only check that does
		detail string     // part of its detail
		warns  *note.Kind // the only warning
	}{
		{name: "as it should be", change: func(*judged) {}},
		{name: "account", change: func(j *judged) { j.trial.Scenario.Completed++ }, fails: "account",
			detail: "100 requests scheduled = 91 completed + 7 failed + 3 unfinished"},
		{name: "nothing scheduled", change: func(j *judged) {
			j.trial.Scenario, j.seen.Collected.Logged = &record.Scenario{}, 0
		}, fails: "account"},
		{name: "a request without a line", change: func(j *judged) { j.seen.Collected.Logged-- }, fails: "request-log",
			detail: "99 requests are in the clients' logs, 100 were scheduled"},
		{name: "requests that had no room", change: func(j *judged) { j.seen.Collected.Lost = 1 }, fails: "request-log"},
		{name: "CPU not counted at first", change: func(j *judged) { j.trial.Scenario.CountedS, j.trial.Window.Seconds = 4.79, 5 }, fails: "counted",
			detail: "CPU was counted for 4.79 s of a timeline of 5.00 s"},
		{name: "CPU counted a little late", change: func(j *judged) { j.trial.Scenario.CountedS, j.trial.Window.Seconds = 4.95, 5 }},
		{name: "CPU not measured", change: func(j *judged) { j.trial.Window.Seconds = 5 }},
		{name: "late", change: func(j *judged) { j.trial.Scenario.Lag.Set(0.99, 10_001) }, warns: noteLateClients},
		{name: "too late", change: func(j *judged) { j.trial.Scenario.Lag.Set(0.99, 1_000_001) }, fails: "schedule-lag", warns: noteLateClients},
		{name: "late within a limit given", change: func(j *judged) {
			j.trial.Scenario.Lag.Set(0.99, 1_500_000)
			j.limits = verdict.Limits{"schedule-lag": 2000, "schedule-lag-warning": 1500}
		}},
		{name: "not late, but for a limit given", change: func(j *judged) { j.limits = verdict.Limits{"schedule-lag": 0.3} }, fails: "schedule-lag",
			detail: "within 0.40 ms of their time"},
		{name: "logs", change: func(j *judged) {
			j.seen.Collected.Logs = map[string]string{"front-2/proxy": "gone", "bar-1/worker": "reset"}
		}, fails: "logs", detail: "log of bar-1/worker: reset\nlog of front-2/proxy: gone"},
		{name: "torn lines", change: func(j *judged) {
			j.seen.Collected.Lines.Damaged, j.seen.Collected.Ledger = 4, Ledger{Requests: 100, Unreconciled: 1}
		}, fails: "logs", detail: "4 damaged lines in proxies' logs", warns: noteUnreconciled},
		{name: "torn lines that nothing misses", change: func(j *judged) { j.seen.Collected.Lines.Damaged = 4 }},
		{name: "more logs than there is room for", change: func(j *judged) { j.seen.Collected.Over = 3 }, fails: "logs",
			detail: "3 log entries exceed a trial's limit"},
		{name: "an istiod that came in the trial", change: func(j *judged) {
			j.seen.Control = &verdict.ControlPlane{Before: []string{"istiod-a"}, After: []string{"istiod-a", "istiod-b"}}
		}, fails: verdict.ControlLived, detail: "istiod-b came"},
		{name: "a clock that was set", change: func(j *judged) {
			j.seen.Collected.ClocksAfter["node-1"] = Clock{Ahead: 8 * time.Millisecond, Bound: 200 * time.Microsecond}
		}, fails: "clocks-apart", detail: "between 4800 and 5200 us off (node node-1)"},
		{name: "a clock that was set within a limit given", change: func(j *judged) {
			j.seen.Collected.ClocksAfter["node-1"] = Clock{Ahead: 8 * time.Millisecond, Bound: 200 * time.Microsecond}
			j.limits = verdict.Limits{"clocks-apart": 6}
		}},
		{name: "clocks over a slow line", change: func(j *judged) {
			j.seen.Collected.ClocksAfter["node-1"] = Clock{Ahead: 8 * time.Millisecond, Bound: 40 * time.Millisecond}
		}, warns: noteClocksApart},
		{name: "a node that was not asked again", change: func(j *judged) { j.seen.Collected.Clocks["node-2"] = Clock{Bound: 40 * time.Millisecond} }, warns: noteClocksApart},
		{name: "clocks of nodes none of which was asked again", change: func(j *judged) {
			j.seen.Collected.Clocks["node-1"], j.seen.Collected.ClocksAfter = Clock{Bound: 40 * time.Millisecond}, map[string]Clock{}
		}},
		{name: "a client that was lost", change: func(j *judged) { j.seen.Repeated = []string{"the client was lost"} }, warns: verdict.NoteRepeated},
		{name: "what was not measured", change: func(j *judged) { j.seen.Unmeasured = []string{"no observer"} }, warns: verdict.NoteUnmeasured},
		{name: "steps", change: func(j *judged) { j.events[0].Error, j.events[1].Error = "not proven: it stays", "refused" }, fails: "steps",
			detail: "gone: not proven: it stays; gone: refused"},
		{name: "a step in time", change: func(j *judged) { j.events[1].SentNS = j.events[1].PlannedNS + 5*ms }},
		{name: "a late step", change: func(j *judged) { j.events[1].SentNS = j.events[1].PlannedNS + 6*ms }, warns: noteLateStep},
		{name: "a late step within a limit given", change: func(j *judged) {
			j.events[1].SentNS = j.events[1].PlannedNS + 6*ms
			j.limits = verdict.Limits{"step-late": 6}
		}},
		{name: "samples missed for a while", change: func(j *judged) { j.seen.Collected.Missed[0].SinceNS = 1000 * ms }},
		{name: "samples missed for long", change: func(j *judged) { j.seen.Collected.Missed[0].SinceNS = 1000*ms - 1 }, fails: "looks", detail: "busy"},
		{name: "samples missed for long within a limit given", change: func(j *judged) {
			j.seen.Collected.Missed[0].SinceNS = 1000*ms - 1
			j.limits = verdict.Limits{"samples": 3.5}
		}},
		{name: "the last sample missed", change: func(j *judged) { j.seen.Collected.Missed[0].Last = true }, fails: "looks"},
		{name: "not reconciled", change: func(j *judged) {
			j.seen.Collected.Ledger = Ledger{Requests: 100, Unreconciled: 2, Orphans: 1}
		}, warns: noteUnreconciled},
		{name: "a lever that the control plane tells nobody", change: func(j *judged) { j.seen.Policies[0].OK = false }, fails: "retries"},
		{name: "a lever that one proxy lacks", change: func(j *judged) { j.seen.Proxies[1].Checks[1] = lacks }, fails: "outlier", detail: "front-2: no outlier detection"},
		{name: "a lever that all lack", change: func(j *judged) {
			j.seen.Proxies[0].Checks[1], j.seen.Proxies[1].Checks[1] = lacks, lacks
		}, fails: "outlier", detail: "front-1: no outlier detection"},
		{name: "another debounce", change: func(j *judged) {
			j.seen.Debounce.Checks[1] = record.Check{Name: "env", Detail: "is 100ms; wanted 1s"}
		}, fails: "debounce-after", detail: "differ: env: is 100ms; wanted 1s"},
		{name: "a debounce that nothing shows", change: func(j *judged) { j.seen.Debounce.Checks = nil }, fails: "debounce-after", detail: "reports no settings"},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := good()
			c.change(j)
			v := j.verdict()
			if got := strings.Join(failing(v), " "); got != c.fails || v.Valid != (c.fails == "") {
				t.Errorf("valid %v, fails %q, want %q: %+v", v.Valid, got, c.fails, v.Checks)
			}
			if c.fails != "" {
				at := slices.IndexFunc(v.Checks, func(k record.Check) bool { return k.Name == c.fails })
				if at >= 0 && !strings.Contains(v.Checks[at].Detail, c.detail) {
					t.Errorf("%s: %q", c.fails, v.Checks[at].Detail)
				}
			}
			if (c.warns == nil) != (len(v.Warnings) == 0) || c.warns != nil && !c.warns.In(v.Warnings) || len(v.Warnings) > 1 {
				t.Errorf("warnings %q", v.Warnings)
			}
		})
	}
}

// All checks are made, each once, and state what was observed if nothing is wrong.
func TestChecks(t *testing.T) {
	want := map[string]string{
		"debounce-after":  "the cell sets 1s; istiod was restarted with it in 2.0 s, and reports it (2 checks)",
		"retries":         "as the cell says",
		"circuit-breaker": "as the cell says",
		"outlier":         "as the cell says",
		"account":         "100 requests scheduled = 90 completed + 7 failed + 3 unfinished",
		"request-log":     "100 requests are in the clients' logs, 100 were scheduled",
		"schedule-lag":    "99% of the requests were sent within 0.40 ms of their time, limit 1000 ms",
		"logs":            "the logs of all proxies and workers were read to their ends",
		"steps":           "2 steps took effect",
		"looks":           "endpoints and CPU were sampled throughout",
		"clocks-apart":    "times of the pods' nodes were between 0 and 300 us off (node node-1), once corrected; limit 1000",
	}
	got := map[string]string{}
	for _, c := range good().verdict().Checks {
		if _, twice := got[c.Name]; twice {
			t.Errorf("%s is checked twice", c.Name)
		}
		got[c.Name] = c.Detail
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	j := good()
	j.seen.Debounce.Restarted = false
	if detail := j.verdict().Checks[0].Detail; !strings.Contains(detail, "istiod had it already") {
		t.Error(detail)
	}
}

// For an aborted trial only what had been observed until then is reported.
func TestGivenUp(t *testing.T) {
	j := good()
	j.seen.Collected = nil
	j.events[0].Error = "not proven"
	var names []string
	for _, c := range j.verdict().Checks {
		names = append(names, c.Name)
	}
	if got := strings.Join(names, " "); got != "debounce-after retries circuit-breaker outlier" {
		t.Errorf("checks %s", got)
	}
}

// Any evidence file is judged, or rejected with the trial's name.
func FuzzJudge(f *testing.F) {
	text, err := json.Marshal(good().seen)
	must.OK(f, err)
	verdicttest.Fuzz(f, Judge, func() []verdict.Case {
		j := good()
		return []verdict.Case{{Trial: j.trial, Events: j.events}}
	}, string(text), `{"collected": {}}`, `{"collected": {"logs": {"a": ""}, "missed": [{"error": "x", "at_unix_ns": -9223372036854775808, "since_unix_ns": 1}]}, "debounce": {}}`)
}

// If node proxies should carry the requests, their counters must have been read.
func TestCarried(t *testing.T) {
	j := good()
	j.trial.Cell = record.Cell{"sidecars": "ambient"}
	if got := failing(j.verdict()); !slices.Contains(got, "carried") {
		t.Errorf("nobody looked: %v", got)
	}
	j.seen.Carried = []record.Check{{Name: "front-client-ztunnel", OK: true}, {Name: "front-client-hbone"}}
	if got := failing(j.verdict()); slices.Contains(got, "carried") || !slices.Contains(got, "front-client-hbone") {
		t.Errorf("one does not hold: %v", got)
	}
}
