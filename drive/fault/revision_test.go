package fault_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/study"
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
			if p.Hint == "" || !slices.ContainsFunc(tt.action.Fields(), func(f study.Field) bool { return f.Name == p.Field }) {
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

// A revision is of one version.
func TestTwoVersions(t *testing.T) {
	step := func(at time.Duration, name, istio string) fault.Step {
		return fault.Step{Name: name + at.String(), At: at, For: 5 * time.Second, Action: &fault.Revision{Name: name, Istio: istio}}
	}
	for name, c := range map[string]struct {
		steps []fault.Step
		at    int // step of the problem; -1: none
	}{
		"one of each":       {[]fault.Step{step(1, "a", ""), step(2, "b", fault.Second)}, -1},
		"twice":             {[]fault.Step{step(1, "a", fault.Second), step(10*time.Second, "a", fault.Second)}, -1},
		"of both versions":  {[]fault.Step{step(1, "a", ""), step(2, "b", ""), step(10*time.Second, "a", fault.Second)}, 2},
		"the other way too": {[]fault.Step{step(1, "a", fault.Second), step(10*time.Second, "a", "")}, 1},
	} {
		problems := (&fault.Timeline{Duration: time.Minute, Steps: c.steps}).Check()
		if len(problems) != min(1, c.at+1) || len(problems) > 0 && (problems[0].Step != c.at || problems[0].Field != fault.RevisionKind || problems[0].Hint == "") {
			t.Errorf("%s: %+v", name, problems)
		}
	}
}

// A control plane is removed only once the namespace has left it.
func TestRetired(t *testing.T) {
	at := func(s time.Duration) time.Duration { return s * time.Second }
	for name, c := range map[string]struct {
		lasts time.Duration
		moves []fault.Step
		says  string // "": no problem
	}{
		"to the end":        {0, []fault.Step{{At: at(10), Action: &fault.Move{To: "canary"}}}, ""},
		"never used":        {at(60), nil, ""},
		"left before":       {at(88), []fault.Step{{At: at(20), Action: &fault.Move{To: "canary"}}, {At: at(60), Action: &fault.Move{To: fault.Installed}}}, ""},
		"still used":        {at(60), []fault.Step{{At: at(20), Action: &fault.Move{To: "canary"}}}, "still on it"},
		"being left":        {at(60), []fault.Step{{At: at(20), Action: &fault.Move{To: "canary"}}, {At: at(60), Action: &fault.Move{To: fault.Installed}}}, "may still be moving"},
		"left later":        {at(50), []fault.Step{{At: at(20), Action: &fault.Move{To: "canary"}}, {At: at(60), Action: &fault.Move{To: fault.Installed}}}, "still on it"},
		"on a condition":    {at(60), []fault.Step{{At: at(20), When: "true", Action: &fault.Move{To: "canary"}}}, ""},
		"used when it ends": {at(18), []fault.Step{{At: at(20), Action: &fault.Move{To: "canary"}}}, ""},
	} {
		line := fault.Timeline{Duration: at(100), Steps: append([]fault.Step{{Name: "second", At: at(2), For: c.lasts, Action: &fault.Revision{Name: "canary", Istio: fault.Second}}}, c.moves...)}
		for i := range line.Steps {
			line.Steps[i].Name = string(rune('a' + i))
		}
		problems := line.Check()
		if len(problems) != min(1, len(c.says)) || c.says != "" && (!strings.Contains(problems[0].Text, c.says) || problems[0].Field != "for" || problems[0].Hint == "") {
			t.Errorf("%s: %+v", name, problems)
		}
		if !line.Second("canary") || line.Second("other") || line.Retires("canary") != (c.lasts > 0) {
			t.Errorf("%s: second %v, retires %v", name, line.Second("canary"), line.Retires("canary"))
		}
	}
}
