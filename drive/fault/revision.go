package fault

import (
	"fmt"
	"slices"

	"github.com/meshtrial/meshtrial/internal/lazyregexp"
	"github.com/meshtrial/meshtrial/study"
)

// Installed is what steps call the revision with which a trial's pods start.
const Installed = "installed"

// revisionName matches a revision that Istio can name objects after.
var revisionName = lazyregexp.New(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// longestRevision is the length up to which istiod-REVISION is a valid name of a Service.
const longestRevision = 63 - len("istiod-")

// Revision starts a control plane of another revision alongside the existing one.
type Revision struct {
	usual
	Name string
	// Istio is Second for the lab's second version; "" for the installed one.
	Istio string
}

// Second names a lab's second version of Istio.
const Second = "second"

// RevisionKind is the name of [Revision] in records.
const RevisionKind = "revision"

var revisionKind = Kind{Name: RevisionKind, Doc: "Runs a control plane of another revision beside the existing one; with for, removes it again.", New: func() Action { return &Revision{} }}

func (*Revision) Kind() string { return revisionKind.Name }

func (a *Revision) Fields() []study.Field {
	return []study.Field{
		{Name: "name", Required: true, Doc: "The revision. A local lab installs it for the trial; a cluster must have it.", Value: study.Prose(&a.Name)},
		{Name: "istio", Doc: "second: of the lab's second version (--second-istio), or in a cluster of another version than the first; as the first if left out.", Value: study.OneOf(&a.Istio, Second)},
	}
}

func (a *Revision) Check(step, _ string) []Problem {
	if a.Name == Installed {
		return []Problem{{Field: "name", Hint: "for example name: canary", Text: fmt.Sprintf("step %q: revision %s already exists", step, Installed)}}
	}
	return checkRevision(step, "name", a.Name)
}

func (a *Revision) Target() string { return a.Name }
func (a *Revision) Holds() string  { return "revision " + a.Name }

// Expect changes nothing: a control plane answers no requests.
func (*Revision) Expect(*Standing) bool       { return true }
func (a *Revision) Perform(p Performer) error { return p.Revision(a) }

// Move moves the trial's namespace to a revision, and restarts its services.
type Move struct {
	usual
	To string // a revision, or Installed
}

// MoveKind is the name of [Move] in records.
const MoveKind = "move"

var moveKind = Kind{Name: MoveKind, Doc: "Moves the trial's namespace to a revision by its label istio.io/rev, and restarts all services with sidecars, a few pods at a time; in an ambient mesh it first moves ztunnel, on all nodes of the cluster. Clients stay.", New: func() Action { return &Move{} }}

func (*Move) Kind() string { return moveKind.Name }

func (a *Move) Fields() []study.Field {
	return []study.Field{{Name: "to", Required: true, Doc: "The revision; installed is the one that the pods started with.", Value: study.Prose(&a.To)}}
}

func (a *Move) Check(step, _ string) []Problem { return checkRevision(step, "to", a.To) }
func (a *Move) Target() string                 { return "the namespace to " + a.To }
func (*Move) Holds() string                    { return "revision of the namespace" }
func (*Move) Reversible() bool                 { return false }

func (a *Move) Perform(p Performer) error { return p.Move(a) }

func checkRevision(step, field, name string) []Problem {
	hint := fmt.Sprintf("use at most %d lower-case letters, digits and dashes, such as canary or 1-31-1", longestRevision)
	switch {
	case !revisionName.MatchString(name):
		return []Problem{{Field: field, Hint: hint, Text: fmt.Sprintf("step %q: %q is not the name of a revision", step, name)}}
	case len(name) > longestRevision:
		return []Problem{{Field: field, Hint: hint, Text: fmt.Sprintf("step %q: istiod-%s is too long a name for a Service: the revision's name has %d characters", step, name, len(name))}}
	}
	return nil
}

// Revisions returns the revisions that steps start, and those to which steps move the
// namespace, each once and without [Installed].
func (t *Timeline) Revisions() (up, to []string) {
	add := func(names *[]string, name string) {
		if !slices.Contains(*names, name) {
			*names = append(*names, name)
		}
	}
	for _, s := range t.Steps {
		switch a := s.Action.(type) {
		case *Revision:
			add(&up, a.Name)
		case *Move:
			if a.To != Installed {
				add(&to, a.To)
			}
		}
	}
	return up, to
}

// Second reports whether a step starts the revision of the second version of Istio.
func (t *Timeline) Second(revision string) bool {
	return slices.ContainsFunc(t.Steps, func(s Step) bool {
		a, ok := s.Action.(*Revision)
		return ok && a.Name == revision && a.Istio == Second
	})
}

// Retires reports whether a step removes the revision again.
func (t *Timeline) Retires(revision string) bool {
	return slices.ContainsFunc(t.Steps, func(s Step) bool {
		a, ok := s.Action.(*Revision)
		return ok && a.Name == revision && s.For > 0
	})
}

// retired finds steps that remove a control plane while the namespace is on it, or may still
// be moving away. When one waits for a condition, its time is unknown.
func retired(all []Occurrence) []Problem {
	var out []Problem
	for _, o := range all {
		a, ok := o.Action.(*Revision)
		if !ok || o.End == 0 || o.When != "" {
			continue
		}
		var last *Occurrence
		for i := range all { // in the order of their begins
			if all[i].Action.Kind() == MoveKind && all[i].When == "" && all[i].Begin < o.End {
				last = &all[i]
			}
		}
		switch {
		case last == nil:
		case last.Action.(*Move).To == a.Name:
			out = append(out, Problem{Step: o.Step, Field: "for", Hint: "first move the namespace back: move: {to: " + Installed + "}",
				Text: fmt.Sprintf("%q removes revision %s at %v, and the namespace is still on it", o.Name, a.Name, o.End)})
		case last.Begin+ProofTime > o.End:
			out = append(out, Problem{Step: o.Step, Field: "for", Hint: fmt.Sprintf("leave %v after the move", ProofTime),
				Text: fmt.Sprintf("%q removes revision %s at %v, while %q may still be moving the namespace until %v", o.Name, a.Name, o.End, last.Name, last.Begin+ProofTime)})
		}
	}
	return out
}

// twoVersions finds steps that start a revision of another version than an earlier step does: a run
// prepares one control plane for each revision.
func (t *Timeline) twoVersions() []Problem {
	var out []Problem
	first := map[string]int{} // step by revision
	for i, s := range t.Steps {
		a, ok := s.Action.(*Revision)
		if !ok {
			continue
		}
		before, known := first[a.Name]
		if !known {
			first[a.Name] = i
		} else if t.Steps[before].Action.(*Revision).Istio != a.Istio {
			out = append(out, Problem{Step: i, Field: RevisionKind, Hint: "name them differently",
				Text: fmt.Sprintf("%q starts revision %s of another version than %q", s.Name, a.Name, t.Steps[before].Name)})
		}
	}
	return out
}

// Moves reports whether a step moves the namespace.
func (t *Timeline) Moves() bool {
	return slices.ContainsFunc(t.Steps, func(s Step) bool { _, ok := s.Action.(*Move); return ok })
}
