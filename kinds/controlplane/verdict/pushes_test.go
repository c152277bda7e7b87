package verdict

import (
	"reflect"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/verdict"
)

func TestPushesFit(t *testing.T) {
	for _, tt := range []struct {
		pushed          float64
		received        int64
		simulated, real int
		fits            bool
	}{
		{0, 0, 10, 0, true},
		{100, 100, 10, 0, true},
		{102, 100, 10, 0, true}, // at the edge of the window
		{120, 100, 10, 0, false},
		{100, 120, 10, 0, false}, // more received than pushed
		{1010, 1000, 10, 0, true},
		{130, 120, 12, 1, true},  // ten each
		{160, 120, 12, 1, false}, // forty for one real sidecar
		{100, 120, 12, 1, false},
		{7, 0, 12, 0, false},
	} {
		if got := new(ruling).pushesFit(tt.pushed, tt.received, tt.simulated, tt.real); got != tt.fits {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

// Pushes to other proxies are not missing at the study's, and are reported.
func TestOthersProxies(t *testing.T) {
	for connected, want := range map[float64]int{0: 0, 10: 0, 13: 3, 14: 4} {
		r := rulingOn(10)
		r.seen.Audience.Proxies, r.seen.Audience.Simulated = make([]Proxy, 9), 9
		r.seen.Audience.Unwatched = 1
		r.trial.Control = &record.Control{Istiod: map[string]float64{`pilot_xds_pushes{type="cds"}`: 12},
			IstiodGauges: map[string]float64{`pilot_xds{version="1.30"}`: connected - 1, `pilot_xds{version="1.31"}`: 1, "pilot_xds_recv_max": 1000},
			Wire:         map[string]record.Wire{"cds": {Responses: 9}}}
		if connected == 0 {
			r.trial.Control.IstiodGauges = nil
		}
		r.changes()
		if got := r.others(); got != want {
			t.Errorf("%v connected: %d others, wanted %d", connected, got, want)
		}
		said := NoteOthers.In(r.Validity().Warnings) || noteOthersChanged.In(r.Validity().Warnings)
		if said != (want > 0) {
			t.Errorf("%v connected: %v", connected, r.Validity().Warnings)
		}
		r.pushes()
		// Our unwatched one received some too: with five others no loss would show.
		if c, judged := checks(r)["pushes"]; judged != (want < 4) || judged && !c.OK {
			t.Errorf("%v connected: %+v", connected, c)
		}
	}
}

// With real sidecars the check fails if the simulated ones lost what no real one can have received,
// and is not made if it could not fail.
func TestPushesBesideReal(t *testing.T) {
	for name, tt := range map[string]struct {
		real      int
		received  int64 // of 12 simulated, of 12 pushed to these and one to each real one
		fits, not bool  // not judged
	}{
		"all came":            {1, 12, true, false},
		"all came, five real": {5, 12, true, false},
		"half was lost":       {2, 6, false, false},
		"more than was sent":  {1, 40, false, false},
		"as many real ones":   {12, 12, false, true},
		"nothing to tell by":  {6, 3, false, true},
		"none of the type":    {1, 0, false, true},
	} {
		r := rulingOn(12)
		r.limits = verdict.Limits{"pushes": 0}
		r.seen.Audience.Proxies = make([]Proxy, 12+tt.real)
		r.trial.Control = &record.Control{Istiod: map[string]float64{`pilot_xds_pushes{type="cds"}`: float64(12 + tt.real)}, Wire: map[string]record.Wire{"cds": {Responses: tt.received}}}
		r.pushes()
		if c, judged := checks(r)["pushes"]; judged == tt.not || c.OK != tt.fits {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// Other proxies that come or go within the window are counted at their maximum, and are reported.
func TestOthersChange(t *testing.T) {
	for name, tt := range map[string]struct {
		before, after float64 // with 10 of the study's
		cds           float64 // pushed, of which the study's received 10
		others        int
		said          []note.Note
		fits          bool
	}{
		"as many":            {14, 14, 20, 4, []note.Note{NoteOthers.Of(4)}, true},
		"they went":          {14, 10, 14, 4, []note.Note{noteOthersChanged.Of(4, 0)}, true},
		"they came":          {10, 14, 14, 4, []note.Note{noteOthersChanged.Of(0, 4)}, true},
		"some went":          {14, 12, 50, 4, []note.Note{noteOthersChanged.Of(4, 2)}, false},
		"ours connect later": {3, 10, 10, 0, nil, true},
	} {
		r := rulingOn(10)
		r.seen.Audience.Proxies, r.seen.Audience.Simulated = make([]Proxy, 10), 10
		connected := int(tt.before)
		r.trial.Control = &record.Control{ConnectedBefore: &connected, Istiod: map[string]float64{`pilot_xds_pushes{type="cds"}`: tt.cds},
			IstiodGauges: map[string]float64{`pilot_xds{version="1.31"}`: tt.after}, Wire: map[string]record.Wire{"cds": {Responses: 10}}}
		r.changes()
		if got := r.others(); got != tt.others {
			t.Errorf("%s: %d others", name, got)
		}
		if warned := r.Validity().Warnings; !reflect.DeepEqual(warned, tt.said) {
			t.Errorf("%s: %q", name, warned)
		}
		r.pushes()
		if c := checks(r)["pushes"]; c.OK != tt.fits {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestJudgePushes(t *testing.T) {
	judge := func(change func(*ruling)) (record.Check, bool) {
		r := rulingOn(10)
		r.trial.Control = &record.Control{Istiod: map[string]float64{`pilot_xds_pushes{type="cds"}`: 10, `pilot_xds_pushes{type="eds"}`: 50, "pilot_services": 7},
			Wire: map[string]record.Wire{"cds": {Responses: 10}, "eds": {Responses: 20}}}
		if change != nil {
			change(r)
		}
		r.pushes()
		c, judged := checks(r)["pushes"]
		return c, judged
	}
	if c, judged := judge(nil); !judged || c.OK || !strings.Contains(c.Detail, "cds 10 pushed, 10 received, eds 50 pushed, 20 received (!)") {
		t.Errorf("%+v", c)
	}
	if c, judged := judge(func(r *ruling) { r.trial.Control.Wire["eds"] = record.Wire{Responses: 50} }); !judged || !c.OK {
		t.Errorf("%+v", c)
	}
	for name, change := range map[string]func(*ruling){
		"changes never came":   func(r *ruling) { r.sum.missed = 1 },
		"streams broke":        func(r *ruling) { r.trial.Control.Reconnects = map[string]int64{"connection": 1} },
		"nothing was counted":  func(r *ruling) { r.trial.Control.Istiod = nil },
		"no simulated sidecar": func(r *ruling) { r.seen.Audience.Simulated = 0 },
		"istiod began anew":    func(r *ruling) { r.seen.After = []Replica{{Pod: "new"}} },
		"slow readers":         misbehaving(controlplane.ClientsSlowReader),
	} {
		if _, judged := judge(change); judged {
			t.Errorf("%s, and yet it is judged", name)
		}
	}
}
