package trial

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/lab/journal"
)

// The plan says what steps change of others', whom that affects, and whether a later run must revert
// it if this one dies.
func TestPlanStep(t *testing.T) {
	for name, tt := range map[string]struct {
		action   fault.Action
		object   string // "" for no plan
		done     journal.Done
		affects  string
		restores bool
	}{
		"killed":    {&fault.Process{Of: fault.OfControlPlane, Do: fault.DoKill}, controlPlane, "killed, and scaled to 0 replicas while the step lasts", untold, true},
		"paused":    {&fault.Process{Of: fault.OfControlPlane, Do: fault.DoPause}, controlPlane, "paused", untold, false},
		"expiring":  {&fault.Certificates{Service: "bar", Do: fault.DoExpire}, controlPlane, "scaled to 0 replicas", untold, true},
		"a node":    {&fault.Drain{Service: "bar", Pick: 1}, "the node of a pod of bar", "cordoned", "no pods are scheduled", true},
		"two nodes": {&fault.Drain{Service: "bar", Pick: 2}, "the nodes of 2 pods of bar", "cordoned", "no pods are scheduled", true},

		"ztunnel restarted": {&fault.Restart{Of: fault.OfZtunnel}, ztunnel, "restarted by its DaemonSet", "in the ambient mesh", true},
		"ztunnel moved":     {&fault.Move{To: "canary"}, ztunnel, "moved by its DaemonSet to revision canary", "in the ambient mesh", true},
		"ztunnel killed":    {&fault.Process{Of: fault.OfZtunnel, Do: fault.DoKill}, ztunnel, "killed", "in the ambient mesh", false},
		"ztunnel, memory":   {&fault.Process{Of: fault.OfZtunnel, Do: fault.DoOOM}, ztunnel, "killed", "in the ambient mesh", false},
		"ztunnel paused":    {&fault.Process{Of: fault.OfZtunnel, Service: "bar", Do: fault.DoPause}, ztunnel, "paused", "in the ambient mesh", false},

		"moved back":          {action: &fault.Move{To: fault.Installed}},
		"replaced":            {action: &fault.Certificates{Service: "bar", Do: fault.DoRotate}},
		"the study's workers": {action: &fault.Process{Of: fault.OfWorker, Service: "bar", Do: fault.DoKill}},
		"its waypoint":        {action: &fault.Process{Of: fault.OfWaypoint, Do: fault.DoKill}},
		"its waypoint anew":   {action: &fault.Restart{Of: fault.OfWaypoint}},
	} {
		planned := planStep(fault.Step{Name: "away", Action: tt.action}, true)
		if len(planned) != 1 || tt.object == "" {
			if len(planned) > 0 || tt.object != "" {
				t.Errorf("%s: %+v", name, planned)
			}
			continue
		}
		p := planned[0]
		if p.Object != tt.object || p.Done != tt.done || strings.Contains(p.Note, "meshtrial cluster restore") != tt.restores {
			t.Errorf("%s: %+v", name, p)
		}
		if len(p.Wide) != 1 || !strings.HasPrefix(p.Wide[0], "step away: ") || !strings.Contains(p.Wide[0], tt.affects) {
			t.Errorf("%s affects others: %q", name, p.Wide)
		}
	}
	if planned := planStep(fault.Step{Name: "moved", Action: &fault.Move{To: "canary"}}, false); len(planned) > 0 {
		t.Errorf("sidecars moved: %+v", planned)
	}
}
