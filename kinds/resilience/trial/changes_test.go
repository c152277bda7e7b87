package trial

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/lab/journal"
)

// The plan for a control plane says how it returns if this program dies before restoring it: a
// paused one resumes by itself.
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
		"its waypoint":        {&fault.Process{Of: fault.OfWaypoint, Do: fault.DoKill}, "", true},
		"its waypoint anew":   {&fault.Restart{Of: fault.OfWaypoint}, "", true},
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

// A drained node takes no pods of others.
func TestPlanStepOfNode(t *testing.T) {
	for pick, nodes := range map[int]string{1: "the node of a pod of bar", 2: "the nodes of 2 pods of bar"} {
		planned := planStep(fault.Step{Name: "gone", Action: &fault.Drain{Service: "bar", Pick: pick}})
		if len(planned) != 1 || planned[0].Object != nodes || planned[0].Done != "cordoned" || len(planned[0].Wide) != 1 || !strings.Contains(planned[0].Wide[0], "step gone: no pods are scheduled") {
			t.Errorf("%+v", planned)
		}
	}
}

// Other users of ztunnel are told what steps do to it, and what reverts that.
func TestPlanStepOfZtunnel(t *testing.T) {
	for _, tt := range []struct {
		action   fault.Action
		done     journal.Done
		restores bool // by a later run, if this one dies
	}{
		{&fault.Restart{Of: fault.OfZtunnel}, "restarted by its DaemonSet", true},
		{&fault.Process{Of: fault.OfZtunnel, Do: fault.DoKill}, "killed", false},
		{&fault.Process{Of: fault.OfZtunnel, Do: fault.DoOOM}, "killed", false},
		{&fault.Process{Of: fault.OfZtunnel, Service: "bar", Do: fault.DoPause}, "paused", false},
	} {
		planned := planStep(fault.Step{Name: "gone", Action: tt.action})
		if len(planned) != 1 || planned[0].Object != "ztunnel" || planned[0].Done != tt.done || len(planned[0].Wide) != 1 || !strings.Contains(planned[0].Wide[0], "step gone: ") || !strings.Contains(planned[0].Wide[0], "in the ambient mesh") {
			t.Errorf("%+v: %+v", tt.action, planned)
			continue
		}
		if strings.Contains(planned[0].Note, "meshtrial cluster restore") != tt.restores {
			t.Errorf("%+v: %s", tt.action, planned[0].Note)
		}
	}
}
