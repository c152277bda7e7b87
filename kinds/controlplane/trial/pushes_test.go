package trial

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
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
		{102, 100, 10, 0, true}, // at the window's edge
		{120, 100, 10, 0, false},
		{100, 120, 10, 0, false}, // more came than was pushed
		{1010, 1000, 10, 0, true},
		{130, 120, 12, 1, true},  // ten each
		{160, 120, 12, 1, false}, // forty for one real sidecar
		{100, 120, 12, 1, false},
		{7, 0, 12, 1, true},
		{7, 0, 12, 0, false},
	} {
		if got := pushesFit(tt.pushed, tt.received, tt.simulated, tt.real); got != tt.fits {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

func TestJudgePushes(t *testing.T) {
	judge := func(change func(*controlTrial, *toll), clients ...string) (record.Check, bool) {
		c, j, sum := controlTrialOf(t, 10, clients...), verdicts{}, toll{}
		c.out.Control = &record.Control{Istiod: map[string]float64{`pilot_xds_pushes{type="cds"}`: 10, `pilot_xds_pushes{type="eds"}`: 50, "pilot_services": 7},
			Wire: map[string]record.Wire{"cds": {Responses: 10}, "eds": {Responses: 20}}}
		if change != nil {
			change(c, &sum)
		}
		c.judgePushes(sum, j.check)
		return j["pushes"], j["pushes"].Name != ""
	}
	if c, told := judge(nil); !told || c.OK || !strings.Contains(c.Detail, "cds 10 pushed, 10 received, eds 50 pushed, 20 received (!)") {
		t.Errorf("%+v", c)
	}
	if c, told := judge(func(c *controlTrial, _ *toll) { c.out.Control.Wire["eds"] = record.Wire{Responses: 50} }); !told || !c.OK {
		t.Errorf("%+v", c)
	}
	for name, change := range map[string]func(*controlTrial, *toll){
		"changes never came":   func(_ *controlTrial, s *toll) { s.missed = 1 },
		"streams broke":        func(c *controlTrial, _ *toll) { c.out.Control.Reconnects = map[string]int64{"connection": 1} },
		"nothing was counted":  func(c *controlTrial, _ *toll) { c.out.Control.Istiod = nil },
		"no simulated sidecar": func(c *controlTrial, _ *toll) { c.ids = nil },
	} {
		if _, told := judge(change); told {
			t.Errorf("%s, and yet it is judged", name)
		}
	}
	if _, told := judge(nil, "clients=slow-reader"); told {
		t.Error("slow readers are judged")
	}
}
