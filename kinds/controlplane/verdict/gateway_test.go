package verdict

import (
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/drive/xds/routeprobe"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
)

// edgeCommit is the commit time of a trial's only change.
const edgeCommit = int64(10_000 * time.Millisecond)

// edgeRuling returns a trial with one change, seen by a simulator whose clock is an hour ahead.
func edgeRuling(s routeprobe.Seen) *ruling {
	const ahead = int64(time.Hour)
	for _, at := range []*int64{&s.GoodNS, &s.AnsweredNS, &s.BadNS} {
		if *at != 0 {
			*at += ahead
		}
	}
	r := rulingOn(1)
	r.seen.Clock = Clock{Ahead: time.Hour, Bound: time.Millisecond}
	r.seen.Routes, r.seen.RoutesEvery = []routeprobe.Seen{s}, 2*time.Millisecond
	r.events = []record.Event{{SentNS: edgeCommit - int64(5*time.Millisecond), CommittedNS: edgeCommit, Object: "VirtualService/a/b"}}
	return r
}

func TestServed(t *testing.T) {
	after := func(ms int64) int64 { return edgeCommit + ms*int64(time.Millisecond) }
	well := routeprobe.Seen{BadNS: after(118), GoodNS: after(120), AnsweredNS: after(121), Statuses: map[string]int{"404": 90, "200": 20, "503": 2}, Failed: 2, Late: time.Millisecond}
	for name, tt := range map[string]struct {
		edit     func(s *routeprobe.Seen)
		ok       bool
		warnings []*note.Kind
	}{
		"well":              {func(*routeprobe.Seen) {}, true, nil},
		"served before":     {func(s *routeprobe.Seen) { s.GoodNS = after(-50) }, false, nil},
		"as it leaves":      {func(s *routeprobe.Seen) { s.GoodNS = after(-5) }, true, nil},
		"never":             {func(s *routeprobe.Seen) { s.GoodNS, s.AnsweredNS = 0, 0 }, true, []*note.Kind{noteUnserved}},
		"not served again":  {func(s *routeprobe.Seen) { s.Relapses = 3 }, true, []*note.Kind{noteRelapsed}},
		"late":              {func(s *routeprobe.Seen) { s.Late = 3 * time.Millisecond }, true, []*note.Kind{noteRoutesLate}},
		"too many were out": {func(s *routeprobe.Seen) { s.Unsent = 4 }, true, []*note.Kind{noteRoutesLate}},
	} {
		s := well
		tt.edit(&s)
		r := edgeRuling(s)
		r.gateway()
		if got := checks(r)["routes-unserved-before"]; got.OK != tt.ok {
			t.Errorf("%s: %+v", name, got)
		}
		warnings := r.Validity().Warnings
		if len(warnings) != len(tt.warnings) || len(warnings) > 0 && !warnings[0].Is(tt.warnings[0]) {
			t.Errorf("%s: warnings %q", name, warnings)
		}
	}
	r := edgeRuling(well)
	r.gateway()
	served := r.events[0].Served
	if served == nil || *served.GoodUS != 120_000 || *served.AnsweredUS != 121_000 || *served.BadUS != 118_000 || served.Requests() != 112 || served.Failed != 2 {
		t.Errorf("%+v", served)
	}
	if g := r.trial.Control.Gateway; g == nil || g.EveryUS != 2000 || g.Routes != 1 || g.LateUS != 1000 {
		t.Errorf("%+v", g)
	}
	r = edgeRuling(well)
	r.events[0].Error = "refused"
	r.gateway()
	if r.events[0].Served != nil {
		t.Error("a change that was refused has a route that is served")
	}
}

// A Gateway's status has all routes some time after the last commit, and none of them some time
// after the last deletion.
func TestAttached(t *testing.T) {
	at := func(ms int64) int64 { return edgeCommit + ms*int64(time.Millisecond) }
	seen := func(statuses ...Attachment) *Attachments {
		return &Attachments{Seen: statuses, Before: 1, WithdrawnNS: at(5000), WithdrawNS: at(6000)}
	}
	us := func(p *int64) int64 {
		if p == nil {
			return -1
		}
		return *p
	}
	for name, tt := range map[string]struct {
		seen                   *Attachments
		all, first, none, down int64
		writes, unwrites       int
		warnings               int
	}{
		"well": {seen(Attachment{at(-100), 1}, Attachment{at(200), 2}, Attachment{at(1700), 3}, Attachment{at(5500), 2}, Attachment{at(7000), 1}), 700_000, 1_700_000, 1_000_000, 2_000_000, 2, 2, 0},
		// Another update has the same number.
		"written twice":        {seen(Attachment{at(-100), 1}, Attachment{at(1700), 3}, Attachment{at(1800), 3}, Attachment{at(7000), 1}), 700_000, 1_700_000, 1_000_000, 2_000_000, 2, 1, 0},
		"never all":            {seen(Attachment{at(-100), 1}, Attachment{at(200), 2}, Attachment{at(7000), 1}), -1, -1, 1_000_000, 2_000_000, 1, 1, 1},
		"never none":           {seen(Attachment{at(-100), 1}, Attachment{at(1700), 3}), 700_000, 1_700_000, -1, -1, 1, 0, 1},
		"too many":             {seen(Attachment{at(-100), 1}, Attachment{at(1600), 4}, Attachment{at(1700), 3}, Attachment{at(7000), 1}), 700_000, 1_700_000, 1_000_000, 2_000_000, 2, 1, 1},
		"not all were deleted": {&Attachments{Seen: []Attachment{{at(-100), 1}, {at(1700), 3}, {at(5500), 2}}, Before: 1, WithdrawnNS: at(5000), WithdrawNS: at(6000), Kept: true}, 700_000, 1_700_000, -1, -1, 1, 1, 0},
		// The watch was ahead of the API server's answer.
		"at once": {seen(Attachment{at(-100), 1}, Attachment{at(990), 3}, Attachment{at(5990), 1}), 0, 990_000, 0, 990_000, 1, 1, 0},
	} {
		r := rulingOn(1)
		r.seen.Attached = tt.seen
		r.events = []record.Event{{CommittedNS: at(0), Object: "HTTPRoute/a/b"}, {CommittedNS: at(1000), Object: "HTTPRoute/a/c"}, {Error: "refused", Object: "HTTPRoute/a/d"}}
		r.attached()
		a := r.trial.Control.Attached
		if a == nil || a.Routes != 2 || us(a.AllUS) != tt.all || us(a.FirstUS) != tt.first || us(a.NoneUS) != tt.none || us(a.NoneFirstUS) != tt.down || a.Writes != tt.writes || a.Unwrites != tt.unwrites || a.Kept != tt.seen.Kept {
			t.Errorf("%s: %+v: all %d, %d, none %d, %d", name, a, us(a.AllUS), us(a.FirstUS), us(a.NoneUS), us(a.NoneFirstUS))
		}
		if got := r.Validity().Warnings; len(got) != tt.warnings {
			t.Errorf("%s: warnings %q", name, got)
		}
	}
}
