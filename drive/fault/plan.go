package fault

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// MaxOccurrences limits the occurrences of a timeline.
	MaxOccurrences = 1000
	// ProofTime limits how long an occurrence may take to begin and to show its effect.
	ProofTime = 30 * time.Second
)

// Problem is an error in a timeline with its place: the index of a step
// and the name of its field ("" for the step itself).
type Problem struct {
	Step  int
	Field string
	Text  string
	Hint  string
}

func (p Problem) Error() string { return p.Text }

// OneAction is the problem of a step without exactly one action.
func OneAction(step string) Problem {
	return Problem{Hint: "exactly one of " + strings.Join(KindNames(), ", "), Text: fmt.Sprintf("step %q must do exactly one thing", step)}
}

// Check finds contradictions in a timeline: times that are negative or beyond
// its end, duplicate names, steps that overlap on the same target. The caller
// checks whether services exist.
func (t *Timeline) Check() []Problem {
	var out []Problem
	fail := func(step int, field, hint, format string, args ...any) {
		out = append(out, Problem{Step: step, Field: field, Text: fmt.Sprintf(format, args...), Hint: hint})
	}
	names := map[string]int{}
	for i, s := range t.Steps {
		kind := s.Kind()
		switch first, twice := names[s.Name]; {
		case s.Name == "":
			fail(i, "name", "name it: windows are named after steps", "a step has no name")
		case twice:
			fail(i, "name", "", "step %q has the name of step %d", s.Name, first+1)
		}
		names[s.Name] = i
		switch {
		case kind == "":
			p := OneAction(s.Name)
			fail(i, "", p.Hint, "%s", p.Text)
		case s.At < 0:
			fail(i, "at", "", "step %q begins before the load", s.Name)
		case s.At > t.Duration:
			fail(i, "at", "make the timeline longer, or the step earlier", "step %q begins at %v, after the timeline's end at %v", s.Name, s.At, t.Duration)
		case s.For < 0:
			fail(i, "for", "", "step %q ends before it begins", s.Name)
		case s.Times < 0 || s.Every < 0:
			fail(i, "times", "", "step %q repeats a negative number of times", s.Name)
		case s.Times > 1 && s.Every == 0:
			fail(i, "every", "for example every: 10s", "step %q repeats %d times but sets no interval", s.Name, s.Times)
		case s.Times <= 1 && s.Every > 0:
			fail(i, "times", "for example times: 4", "step %q repeats every %v but sets no number of times", s.Name, s.Every)
		case s.When != "" && s.Times > 1:
			fail(i, "when", "write a step for each", "step %q waits for a condition and cannot repeat", s.Name)
		case s.Times > MaxOccurrences:
			fail(i, "times", fmt.Sprintf("at most %d", MaxOccurrences), "step %q repeats too often", s.Name)
		case s.Times > 1 && s.At+time.Duration(s.Times-1)*s.Every > t.Duration:
			fail(i, "times", "make the timeline longer", "repetition %d of step %q begins after the timeline's end at %v", s.Times, s.Name, t.Duration)
		case s.For > 0 && !s.Action.Reversible():
			fail(i, "for", "leave for out, and add a step that reverts it", "step %q (%s) is not reverted automatically", s.Name, kind)
		case s.For > 0 && s.Times > 1 && s.For > s.Every:
			fail(i, "for", "", "step %q lasts %v and repeats every %v: it overlaps itself", s.Name, s.For, s.Every)
		}
	}
	if len(out) > 0 {
		return out
	}
	if all := t.Plan(); len(all) > MaxOccurrences {
		fail(0, "", "", "the timeline has %d occurrences of steps, at most %d are possible", len(all), MaxOccurrences)
	} else {
		out = slices.Concat(overlaps(all), overtaken(all), retired(all), t.twoVersions())
	}
	return out
}

// overlaps finds occurrences that act on the same target at the same time, so that the end
// of one would revert the other. An occurrence that stays in force (End is 0) overlaps
// nothing later: a later one adds to it. When one waits for a condition, its time is
// unknown.
func overlaps(all []Occurrence) []Problem {
	var out []Problem
	for i, a := range all {
		for _, b := range all[i+1:] {
			if a.When == "" && b.When == "" && a.End > b.Begin && a.Holds() == b.Holds() {
				out = append(out, Problem{Step: b.Step, Field: "at", Hint: "end one before the other begins",
					Text: fmt.Sprintf("%q begins at %v, while %q affects the same %s until %v", b.Name, b.Begin, a.Name, a.Holds(), a.End)})
			}
		}
	}
	return out
}

// overtaken finds moves of the namespace that begin before the previous one is proved: its
// pods would follow the later move. When one waits for a condition, its time is unknown.
func overtaken(all []Occurrence) []Problem {
	var out []Problem
	var last *Occurrence
	for i := range all {
		o := &all[i]
		if o.Action.Kind() != MoveKind || o.When != "" {
			continue
		}
		if last != nil && o.Begin < last.Begin+ProofTime {
			field := "at"
			if o.Step == last.Step {
				field = "every"
			}
			out = append(out, Problem{Step: o.Step, Field: field, Hint: fmt.Sprintf("leave %v between them", ProofTime),
				Text: fmt.Sprintf("%q moves the namespace at %v, while %q may still be moving it until %v", o.Name, o.Begin, last.Name, last.Begin+ProofTime)})
		}
		last = o
	}
	return out
}

// Announced is the suffix that names the announcement of a load step.
const Announced = "-announced"

// Without returns the timeline without the named steps. NAME-announced removes
// only the announcement of the load step NAME.
func (t *Timeline) Without(names []string) Timeline {
	out := Timeline{Duration: t.Duration}
	for _, s := range t.Steps {
		if slices.Contains(names, s.Name) {
			continue
		}
		if l, ok := s.Action.(*Load); ok && slices.Contains(names, s.Name+Announced) {
			s.Action = &Load{Rate: l.Rate}
		}
		out.Steps = append(out.Steps, s)
	}
	return out
}

// Plan unrolls the timeline: every occurrence in order of time, then of the file.
func (t *Timeline) Plan() []Occurrence {
	var out []Occurrence
	for i, s := range t.Steps {
		for turn := range max(1, s.Times) {
			o := Occurrence{Step: i, Name: s.Name, Begin: s.At + time.Duration(turn)*s.Every, When: s.When, For: s.For, Action: s.Action}
			if turn > 0 {
				o.Name = fmt.Sprintf("%s#%d", s.Name, turn+1)
			}
			if s.For > 0 {
				o.End = o.Begin + s.For
			}
			out = append(out, o)
		}
	}
	slices.SortStableFunc(out, func(a, b Occurrence) int {
		return cmp.Or(cmp.Compare(a.Begin, b.Begin), cmp.Compare(a.Step, b.Step))
	})
	return out
}
