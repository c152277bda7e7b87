package verdict

import (
	"strings"
	"testing"
)

// A trial in which replicas of the control plane appeared, disappeared or
// restarted is invalid.
func TestCheckControlPlane(t *testing.T) {
	one, two := "istiod-a (restart 0)", "istiod-b (restart 0)"
	for name, tt := range map[string]struct {
		seen   *ControlPlane
		judged bool
		wrong  string // "" for a correct trial
	}{
		"not looked at":    {nil, false, ""},
		"none":             {&ControlPlane{Before: []string{}, After: []string{}}, false, ""},
		"the same":         {&ControlPlane{[]string{one, two}, []string{two, one}}, true, ""},
		"scaled up":        {&ControlPlane{[]string{one}, []string{one, two}}, true, two + " came"},
		"scaled down":      {&ControlPlane{[]string{one, two}, []string{one}}, true, two + " ended or got unready"},
		"restarted":        {&ControlPlane{[]string{one}, []string{"istiod-a (restart 1)"}}, true, one + " ended or got unready, istiod-a (restart 1) came"},
		"all of them gone": {&ControlPlane{Before: []string{one}}, true, one + " ended"},
	} {
		var s Sheet
		s.CheckControlPlane(tt.seen)
		v := s.Validity()
		if v.Valid != (tt.wrong == "") || len(v.Checks) == 1 != tt.judged || tt.wrong != "" && !strings.Contains(v.Checks[0].Detail, tt.wrong) {
			t.Errorf("%s: %+v", name, v)
		}
	}
}
