package trial

import (
	"testing"

	"github.com/meshtrial/meshtrial/drive/fault"
)

// Only a timeline without steps that are about the control plane wants it to live.
func TestChangesControlPlane(t *testing.T) {
	for name, tt := range map[string]struct {
		action fault.Action
		want   bool
	}{
		"killed":                   {&fault.Process{Of: fault.OfControlPlane, Do: fault.DoKill}, true},
		"paused":                   {&fault.Process{Of: fault.OfControlPlane, Do: fault.DoPause}, true},
		"a service's process":      {&fault.Process{Do: fault.DoKill}, false},
		"certificates that expire": {&fault.Certificates{Do: fault.DoExpire}, true},
		"packets":                  {&fault.Network{}, false},
		"certificates that rotate": {&fault.Certificates{}, false},
	} {
		if got := changesControlPlane([]fault.Step{{Action: &fault.Network{}}, {Action: tt.action}}); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if changesControlPlane(nil) {
		t.Error("no step changes it")
	}
}
