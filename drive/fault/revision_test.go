package fault_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/drive/fault"
)

// A revision's name must be valid in object names, and the existing revision cannot be
// started.
func TestCheckRevision(t *testing.T) {
	for _, tt := range []struct {
		action fault.Action
		wrong  bool
	}{
		{&fault.Revision{Name: "canary"}, false}, {&fault.Revision{Name: "1-31-1"}, false},
		{&fault.Revision{Name: "1.31"}, true}, {&fault.Revision{Name: "-a"}, true}, {&fault.Revision{Name: fault.Installed}, true},
		{&fault.Revision{Name: strings.Repeat("a", 56)}, false}, {&fault.Revision{Name: strings.Repeat("a", 57)}, true}, {&fault.Move{To: strings.Repeat("a", 57)}, true},
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

// A move that the next one could overtake before it is proved is rejected; the problem is
// at the start of the later one.
func TestMovesOverlap(t *testing.T) {
	for name, c := range map[string]struct {
		steps []fault.Step
		step  int
		field string // "": no problem
	}{
		"far apart":     {[]fault.Step{{At: 10 * time.Second}, {At: 40 * time.Second}}, 0, ""},
		"too near":      {[]fault.Step{{At: 10 * time.Second}, {At: 39 * time.Second}}, 1, "at"},
		"at once":       {[]fault.Step{{At: 10 * time.Second}, {At: 10 * time.Second}}, 1, "at"},
		"in file order": {[]fault.Step{{At: 50 * time.Second}, {At: 30 * time.Second}}, 0, "at"},
		"repeated":      {[]fault.Step{{At: 10 * time.Second, Every: 20 * time.Second, Times: 2}}, 0, "every"},
		"repeated late": {[]fault.Step{{At: 10 * time.Second, Every: 30 * time.Second, Times: 2}}, 0, ""},
		"on conditions": {[]fault.Step{{At: 10 * time.Second}, {At: 20 * time.Second, When: "true"}}, 0, ""},
	} {
		line := fault.Timeline{Duration: time.Minute, Steps: c.steps}
		for i := range line.Steps {
			line.Steps[i].Name, line.Steps[i].Action = string(rune('a'+i)), &fault.Move{To: fault.Installed}
		}
		problems := line.Check()
		if len(problems) != min(1, len(c.field)) {
			t.Errorf("%s: %v", name, problems)
			continue
		}
		for _, p := range problems {
			if p.Step != c.step || p.Field != c.field || p.Hint != "leave 30s between them" {
				t.Errorf("%s: %+v", name, p)
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
