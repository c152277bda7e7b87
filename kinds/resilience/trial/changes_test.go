package trial

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/fault"
	"github.com/meshtrial/meshtrial/journal"
)

// What is planned of a control plane says how it comes back where this program does not
// live to bring it: a paused one goes on by itself.
func TestPlanStep(t *testing.T) {
	for name, tt := range map[string]struct {
		action    fault.Action
		done      string // "" for no plan
		comesBack bool   // by itself
	}{
		"killed":              {&fault.Process{Of: fault.OfControlPlane, Do: fault.DoKill}, "scaled to 0 replicas while the step lasts", false},
		"paused":              {&fault.Process{Of: fault.OfControlPlane, Do: fault.DoPause}, "paused", true},
		"expiring":            {&fault.Certificates{Service: "bar", Do: fault.DoExpire}, "scaled to 0 replicas", false},
		"replaced":            {&fault.Certificates{Service: "bar", Do: fault.DoRotate}, "", true},
		"the study's workers": {&fault.Process{Of: fault.OfWorker, Service: "bar", Do: fault.DoKill}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			planned := planStep(fault.Step{Name: "away", Action: tt.action})
			if len(planned) > 0 != (tt.done != "") {
				t.Fatalf("%+v", planned)
			}
			for _, p := range planned {
				if len(p.Wide) != 1 || !strings.Contains(p.Wide[0], "step away: ") || !strings.Contains(p.Wide[0], untold) {
					t.Errorf("to proxies of others: %q", p.Wide)
				}
			}
			if text := journal.Text(planned); !strings.Contains(text, tt.done) || strings.Contains(text, "meshtrial cluster restore") == tt.comesBack {
				t.Errorf("%s", text)
			}
		})
	}
}
