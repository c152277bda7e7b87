// Package verdict is what all rules share that decide whether trials are valid.
//
//	evidence (what a trial saw, on disk) + limits -> a kind's rules -> record.Validity
//
// A trial records what it saw and decides nothing: its kind's rules, pure functions below
// kinds, decide from that, when the trial has ended and again on request, under the limits
// of that day or under given ones.
// What a check compares with is a [Limit], defined once beside the rule.
package verdict

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
)

// Version is that of the rules: it rises when the same evidence under the same
// limits may get another verdict.
const Version = 4

// Limit is a bound that a check compares with.
type Limit struct {
	Name    string // schedule-lag: the check's, with an aspect where it has several
	Default float64
	Unit    string // ratio, us, ms, s; "" for a plain number
	Doc     string // what it bounds
}

// Limits are bounds by name that differ from their defaults.
type Limits map[string]float64

// Of is the value in force of a limit.
func (l Limits) Of(limit Limit) float64 {
	if v, ok := l[limit.Name]; ok {
		return v
	}
	return limit.Default
}

// Rules identifies the rules of a judgement: all of a kind's limits, with the values in force.
func (l Limits) Rules(all []Limit) record.Rules {
	r := record.Rules{Version: Version, Limits: map[string]float64{}}
	for _, limit := range all {
		r.Limits[limit.Name] = l.Of(limit)
	}
	return r
}

// ParseLimits reads NAME=VALUE texts. A value is in the limit's unit, or has one: 0.5, 50%,
// 2s. Unknown names and values that do not fit the limit are usage errors.
func ParseLimits(texts []string, all []Limit) (Limits, error) {
	out := Limits{}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, errs.WithHint(errs.Usage("--limit %s: a limit is NAME=VALUE", text), "the limits are\n%s", Listed(all))
		}
		i := slices.IndexFunc(all, func(l Limit) bool { return l.Name == name })
		if i < 0 {
			return nil, errs.WithHint(errs.Usage("--limit %s: there is no such limit", name), "the limits are\n%s", Listed(all))
		}
		v, err := all[i].parse(value)
		if err != nil {
			return nil, err
		}
		out[name] = v
	}
	return out, nil
}

// Outdated says in words which of the rules that something was judged by are gone or have
// another value now, and which are new; "" if none.
func Outdated(by record.Rules, all []Limit) string { return Differ(by, Limits(nil).Rules(all)) }

// Differ is [Outdated] where today's rules are known by their values.
func Differ(by, today record.Rules) string {
	var words []string
	if by.Version == 0 && by.Limits == nil {
		return "" // not judged
	}
	if by.Version != today.Version {
		words = append(words, fmt.Sprintf("by rules of version %d, today's are version %d", by.Version, today.Version))
	}
	for _, name := range slices.Sorted(maps.Keys(by.Limits)) {
		switch value, ok := today.Limits[name]; {
		case !ok:
			words = append(words, fmt.Sprintf("by a limit %s, which no rule has any more", name))
		case value != by.Limits[name]:
			words = append(words, fmt.Sprintf("with %s %g in place of %g", name, by.Limits[name], value))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(today.Limits)) {
		if _, ok := by.Limits[name]; !ok {
			words = append(words, fmt.Sprintf("without a limit %s, which is %g today", name, today.Limits[name]))
		}
	}
	if len(words) == 0 {
		return ""
	}
	return "trials were judged " + strings.Join(words, ", ")
}

// Case is a trial to be judged.
type Case struct {
	// Trial is its record. The measurements are not judged again.
	Trial  record.Trial
	Events []record.Event // of the trial
	// Evidence is what the trial wrote down, as JSON.
	Evidence []byte
	Limits   Limits
	// Verify is the mesh's verification of the mode that the study names.
	Verify func(mesh.Evidence) []record.Check
}

// Judge derives a trial's record, and its events, from what it saw. It fails only if the
// evidence cannot be read.
type Judge func(Case) (record.Trial, []record.Event, error)

// CheckNamed finds a check without a name among a trial's evidence, and names its place.
func CheckNamed(place string, checks []record.Check) error {
	if i := slices.IndexFunc(checks, func(c record.Check) bool { return c.Name == "" }); i >= 0 {
		return fmt.Errorf("%s[%d]: a check without a name", place, i)
	}
	return nil
}

// CheckCount finds a negative count among a trial's evidence.
func CheckCount(place string, n int64) error {
	if n < 0 {
		return fmt.Errorf("%s: %d is below zero", place, n)
	}
	return nil
}

// Sheet collects the results of a trial's rules.
type Sheet struct{ v record.Validity }

// Check adds a check with its detail, a format of package fmt and its arguments.
func (s *Sheet) Check(name string, ok bool, format string, args ...any) {
	s.Add(record.Check{Name: name, OK: ok, Detail: fmt.Sprintf(format, args...)})
}

// Add adds checks made elsewhere.
func (s *Sheet) Add(checks ...record.Check) { s.v.Checks = append(s.v.Checks, checks...) }

// Warn adds a remark for readers of the trial.
func (s *Sheet) Warn(k *note.Kind, args ...any) { s.Note(k.Of(args...)) }

// WarnEach warns of each of several texts.
func (s *Sheet) WarnEach(k *note.Kind, texts []string) {
	for _, text := range texts {
		s.Warn(k, text)
	}
}

// Note adds notes made elsewhere.
func (s *Sheet) Note(notes ...note.Note) { s.v.Warnings = append(s.v.Warnings, notes...) }

// Validity is valid if every check holds.
func (s *Sheet) Validity() record.Validity {
	v := s.v
	v.Valid = !slices.ContainsFunc(v.Checks, func(c record.Check) bool { return !c.OK })
	return v
}

// Steal is the share of CPU time that the hypervisor may take without a warning.
var Steal = Limit{Name: "steal", Default: 0.02, Unit: "ratio", Doc: "CPU time that the hypervisor may take of a window without a warning"}

// WarnSteal warns of a window in which the hypervisor took more.
func (s *Sheet) WarnSteal(p *record.Pressure, l Limits) {
	if p != nil && p.StealRatio > l.Of(Steal) {
		s.Warn(NoteStolen, p.StealRatio*100)
	}
}
