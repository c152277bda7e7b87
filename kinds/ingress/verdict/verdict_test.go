package verdict

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/drive/xds/routeprobe"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/verdict"
	"github.com/meshtrial/meshtrial/run/verdict/verdicttest"
	"github.com/meshtrial/meshtrial/testing/must"
)

const ms = 1_000_000 // nanoseconds

// evidence has two routes, served 150 ms after their commits by a clock that is 5 ms ahead, and two
// watched ones.
func evidence() Evidence {
	e := Evidence{AheadNS: 5 * ms, BoundNS: ms, EveryNS: 5 * ms, StepNS: 1000 * ms, ReadyNS: 7000 * ms,
		Control: verdict.ControlPlane{Before: []string{"c"}, After: []string{"c"}}, Gateway: verdict.ControlPlane{Before: []string{"g"}, After: []string{"g"}}}
	for i := range 2 {
		at := int64(i+1) * 1000 * ms
		e.Changes = append(e.Changes, record.Event{Change: i, Object: "HTTPRoute/ns/r", PlannedNS: at, SentNS: at + ms, CommittedNS: at + 2*ms})
		e.Routes = append(e.Routes, routeprobe.Seen{Change: i, BadNS: at + 150*ms, GoodNS: at + 155*ms, AnsweredNS: at + 157*ms, Statuses: map[string]int{"404": 30, "200": 9}, Late: ms})
		e.Watched = append(e.Watched, routeprobe.Seen{Statuses: map[string]int{"200": 100}})
	}
	return e
}

func failed(t record.Trial) (out []string) {
	for _, c := range t.Validity.Checks {
		if !c.OK {
			out = append(out, c.Name)
		}
	}
	return out
}

func TestOf(t *testing.T) {
	trial, events := Of(record.Trial{}, evidence(), nil)
	if !trial.Validity.Valid || len(trial.Validity.Warnings) > 0 {
		t.Errorf("%+v", trial.Validity)
	}
	if s := events[1].Served; s == nil || *s.AnsweredUS != 150_000 || *s.GoodUS != 148_000 || *s.BadUS != 143_000 {
		t.Errorf("%+v", s)
	}
	if i := trial.Ingress; i.Changes != 2 || i.ReadyUS != 7_000_000 || i.Watched["200"] != 200 || i.Wrong != 0 || i.Requests.Routes != 2 || i.Requests.LateUS != 1000 {
		t.Errorf("%+v", i)
	}
}

func TestFaults(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil   func(*Evidence)
		warning *note.Kind
		failed  []string
	}{
		"a route that never arrives": {func(e *Evidence) {
			e.Routes[1].GoodNS, e.Routes[1].AnsweredNS = 0, 0
			e.Rejected = map[int]string{1: "Accepted is False"}
		}, NoteUnserved, nil},
		"a route that is served no more": {func(e *Evidence) { e.Routes[0].Relapses, e.Routes[0].Failed = 1, 1 }, noteRelapsed, nil},
		"existing routes fail": {func(e *Evidence) {
			e.Watched[0].Statuses["503"], e.Watched[0].Failed = 3, 3
		}, noteWrong, nil},
		"requests are not sent":              {func(e *Evidence) { e.Watched[0].Unsent = 1 }, noteUnsent, nil},
		"a route is served before it exists": {func(e *Evidence) { e.Routes[0].GoodNS = e.Changes[0].SentNS - ms }, nil, []string{"routes-unserved-before"}},
		"the API server rejects a route": {func(e *Evidence) {
			e.Changes[0].CommittedNS, e.Changes[0].Error = 0, "no"
		}, nil, []string{"committed"}},
		"routes are late": {func(e *Evidence) {
			for i := range e.Changes {
				e.Changes[i].CommittedNS += 600 * ms
			}
		}, nil, []string{"route-schedule"}},
		"requests are late": {func(e *Evidence) { e.Routes[0].Late = 200 * ms }, nil, []string{"requests-in-time"}},
		"requests are a little late for a slow route": {func(e *Evidence) {
			e.Routes[0].Late, e.Routes[0].GoodNS = 200*ms, e.Routes[0].GoodNS+2000*ms
		}, nil, nil},
		"requests are late for a route that is never served": {func(e *Evidence) {
			e.Routes[0].Late, e.Routes[0].GoodNS, e.Routes[0].AnsweredNS = 200*ms, 0, 0
		}, NoteUnserved, []string{"requests-in-time"}},
		"others are late":         {func(e *Evidence) { e.Watched[0].Late = 200 * ms }, nil, nil},
		"the control plane ended": {func(e *Evidence) { e.Control.After = nil }, nil, []string{verdict.ControlLived}},
		"the gateway ended":       {func(e *Evidence) { e.Gateway.After = []string{"h"} }, nil, []string{"gateway-lived"}},
		"CPU is unknown":          {func(e *Evidence) { e.Unread = []record.Check{{Name: "cpu-gateway"}} }, nil, []string{"cpu-gateway"}},
	} {
		e := evidence()
		tt.spoil(&e)
		trial, _ := Of(record.Trial{}, e, nil)
		if got := trial.Validity.Warnings; (len(got) > 0) != (tt.warning != nil) || tt.warning != nil && !tt.warning.In(got) {
			t.Errorf("%s: warnings %v", name, note.Codes(got))
		}
		if got := failed(trial); !slices.Equal(got, tt.failed) {
			t.Errorf("%s: failed checks %v, want %v", name, got, tt.failed)
		}
	}
}

// The same evidence, read from its file, gives the same verdict.
func TestJudge(t *testing.T) {
	e := evidence()
	text, err := json.Marshal(e)
	must.OK(t, err)
	want, _ := Of(record.Trial{ID: "b000-t00"}, e, nil)
	got, events, err := Judge(verdict.Case{Trial: record.Trial{ID: "b000-t00"}, Evidence: text})
	must.OK(t, err)
	a, _ := json.Marshal(want)
	b, _ := json.Marshal(got)
	if string(a) != string(b) || len(events) != 2 || events[0].Trial != "b000-t00" {
		t.Errorf("judged %s, want %s", b, a)
	}
	for name, spoil := range map[string]func(*Evidence){
		"requests for a change that was not made": func(e *Evidence) { e.Routes[0].Change = 9 },
		"two routes of one change":                func(e *Evidence) { e.Routes[1].Change = 0 },
		"a change without requests":               func(e *Evidence) { e.Routes = e.Routes[:1] },
	} {
		e := evidence()
		spoil(&e)
		text, err := json.Marshal(e)
		must.OK(t, err)
		if _, _, err := Judge(verdict.Case{Evidence: text}); err == nil {
			t.Errorf("%s: the evidence is accepted", name)
		}
	}
}

func FuzzJudge(f *testing.F) {
	text, err := json.Marshal(evidence())
	must.OK(f, err)
	verdicttest.Fuzz(f, Judge, func() []verdict.Case { return []verdict.Case{{Trial: record.Trial{ID: "b000-t00"}}} }, string(text),
		`{"step_ns": 1}`, `{"step_ns": 1, "changes": [{}], "routes": [{"change": 0}], "watched": [{"statuses": {"503": 2}}]}`,
		`{"step_ns": 1, "changes": [{"change": 0}], "routes": [{"change": -1}]}`)
}
