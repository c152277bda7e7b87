package fault_test

import (
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/fault"
)

// A revision has a name that objects can have, and nobody brings up the one that is there.
func TestCheckRevision(t *testing.T) {
	for _, tt := range []struct {
		action fault.Action
		wrong  bool
	}{
		{&fault.Revision{Name: "canary"}, false}, {&fault.Revision{Name: "1-31-1"}, false},
		{&fault.Revision{Name: "1.31"}, true}, {&fault.Revision{Name: "-a"}, true}, {&fault.Revision{Name: fault.Installed}, true},
		{&fault.Move{To: "canary"}, false}, {&fault.Move{To: fault.Installed}, false}, {&fault.Move{To: "Canary"}, true}, {&fault.Move{}, true},
	} {
		problems := tt.action.Check("step", "bar")
		if len(problems) > 0 != tt.wrong {
			t.Errorf("%+v: %v", tt.action, problems)
		}
		for _, p := range problems {
			if p.Hint == "" || !slices.ContainsFunc(tt.action.Fields(), func(f fault.Field) bool { return f.Name == p.Field }) {
				t.Errorf("%+v: no hint, or not of a field: %+v", tt.action, p)
			}
		}
	}
}

func TestRevisions(t *testing.T) {
	line := fault.Timeline{Steps: []fault.Step{{Action: &fault.Revision{Name: "a"}}, {Action: &fault.Move{To: "a"}}, {Action: &fault.Move{To: fault.Installed}}, {Action: &fault.Move{To: "b"}}, {Action: &fault.Move{To: "a"}}, {}}}
	if up, to := line.Revisions(); !slices.Equal(up, []string{"a"}) || !slices.Equal(to, []string{"a", "b"}) || !line.Moves() {
		t.Errorf("up %q, to %q, moves %v", up, to, line.Moves())
	}
	line.Steps = line.Steps[:1]
	if up, to := line.Revisions(); len(up) != 1 || len(to) != 0 || line.Moves() {
		t.Errorf("up %q, to %q, moves %v", up, to, line.Moves())
	}
}
