// Package verdict has the common parts of the rules that decide whether trials are valid.
//
//	evidence (what a trial saw, on disk) + limits -> a kind's rules -> record.Validity
//
// A trial records what it saw and decides nothing. Its kind's rules, pure functions below
// kinds, decide from that evidence after the trial has ended, and again on request, under
// today's limits or given ones. What a check compares with is a [Limit], defined once next to
// its rule.
package verdict

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
)

// Version is the version of the rules. Increase it when the same evidence under the same
// limits may get another verdict.
const Version = 5

// Limit is a bound that a check compares with.
type Limit struct {
	Name    string // schedule-lag: the check's name, with an aspect if it has several limits
	Default float64
	Unit    string // ratio, us, ms, s; "" for a plain number
	Doc     string // what it bounds
}

// Limits has the values, by name, of limits that differ from their defaults.
type Limits map[string]float64

// Of returns the effective value of a limit.
func (l Limits) Of(limit Limit) float64 {
	if v, ok := l[limit.Name]; ok {
		return v
	}
	return limit.Default
}

// Rules returns the identity of the rules of a judgement: all limits of a kind with their
// effective values.
func (l Limits) Rules(all []Limit) record.Rules {
	r := record.Rules{Version: Version, Limits: map[string]float64{}}
	for _, limit := range all {
		r.Limits[limit.Name] = l.Of(limit)
	}
	return r
}

// ParseLimits parses NAME=VALUE texts. A value is in the limit's unit, or specifies one: 0.5,
// 50%, 2s. Unknown names and values that do not fit the limit are usage errors.
func ParseLimits(texts []string, all []Limit) (Limits, error) {
	out := Limits{}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, errs.WithHint(errs.Usage("--limit %s: a limit is NAME=VALUE", text), "the limits are\n%s", Listed(all))
		}
		i := slices.IndexFunc(all, func(l Limit) bool { return l.Name == name })
		if i < 0 {
			return nil, errs.WithHint(errs.Usage("--limit %s: unknown limit", name), "the limits are\n%s", Listed(all))
		}
		v, err := all[i].parse(value)
		if err != nil {
			return nil, err
		}
		out[name] = v
	}
	return out, nil
}

// Outdated describes which of the rules of an earlier judgement no longer exist or have
// another value today, and which are new; "" if none.
func Outdated(by record.Rules, all []Limit) string { return Differ(by, Limits(nil).Rules(all)) }

// Differ is like [Outdated], given the values of today's rules.
func Differ(by, today record.Rules) string {
	var words []string
	if by.Version == 0 && by.Limits == nil {
		return "" // not judged
	}
	if by.Version != today.Version {
		words = append(words, fmt.Sprintf("by rules of version %d, the current ones are version %d", by.Version, today.Version))
	}
	for _, name := range slices.Sorted(maps.Keys(by.Limits)) {
		switch value, ok := today.Limits[name]; {
		case !ok:
			words = append(words, fmt.Sprintf("by limit %s, which no longer exists", name))
		case value != by.Limits[name]:
			words = append(words, fmt.Sprintf("with %s %g instead of %g", name, by.Limits[name], value))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(today.Limits)) {
		if _, ok := by.Limits[name]; !ok {
			words = append(words, fmt.Sprintf("without limit %s, which is now %g", name, today.Limits[name]))
		}
	}
	if len(words) == 0 {
		return ""
	}
	return "trials were judged " + strings.Join(words, ", ")
}

// Case is a trial to be judged.
type Case struct {
	// Trial is the trial's record. Its measurements are not judged again.
	Trial  record.Trial
	Events []record.Event // of the trial
	// Evidence is the trial's evidence as JSON.
	Evidence []byte
	Limits   Limits
	// Verify verifies for the mesh that the mode named by the study was active.
	Verify func(mesh.Evidence) []record.Check
}

// Read decodes the evidence into e, and has check find what rules cannot use.
func (c Case) Read(e any, check func() error) error {
	err := json.Unmarshal(c.Evidence, e)
	if err == nil {
		err = check()
	}
	if err != nil {
		return fmt.Errorf("evidence of trial %s: %w", c.Trial.ID, err)
	}
	return nil
}

// Judge derives a trial's record and events from its evidence. It fails only if the evidence
// cannot be read.
type Judge func(Case) (record.Trial, []record.Event, error)

// CheckNamed returns an error with place if a check in a trial's evidence has no name.
func CheckNamed(place string, checks []record.Check) error {
	if i := slices.IndexFunc(checks, func(c record.Check) bool { return c.Name == "" }); i >= 0 {
		return fmt.Errorf("%s[%d]: a check without a name", place, i)
	}
	return nil
}

// CheckCount returns an error with place if a count in a trial's evidence is negative.
func CheckCount(place string, n int64) error {
	if n < 0 {
		return fmt.Errorf("%s: %d is below zero", place, n)
	}
	return nil
}

// Sheet collects the results of a trial's rules.
type Sheet struct{ v record.Validity }

// Check adds a check with its detail, formatted as by package fmt.
func (s *Sheet) Check(name string, ok bool, format string, args ...any) {
	s.Add(record.Check{Name: name, OK: ok, Detail: fmt.Sprintf(format, args...)})
}

// Add adds existing checks.
func (s *Sheet) Add(checks ...record.Check) { s.v.Checks = append(s.v.Checks, checks...) }

// Warn adds a warning for readers of the trial.
func (s *Sheet) Warn(k *note.Kind, args ...any) { s.Note(k.Of(args...)) }

// WarnEach adds a warning for each of several texts.
func (s *Sheet) WarnEach(k *note.Kind, texts []string) {
	for _, text := range texts {
		s.Warn(k, text)
	}
}

// Note adds existing notes.
func (s *Sheet) Note(notes ...note.Note) { s.v.Warnings = append(s.v.Warnings, notes...) }

// Validity returns the collected results. A trial is valid if every check passes.
func (s *Sheet) Validity() record.Validity {
	v := s.v
	v.Valid = !slices.ContainsFunc(v.Checks, func(c record.Check) bool { return !c.OK })
	return v
}

// Steal is the share of CPU time that the hypervisor may take without a warning.
var Steal = Limit{Name: "steal", Default: 0.02, Unit: "ratio", Doc: "share of a window's CPU time that the hypervisor may take without a warning"}

// WarnSteal adds a warning if the hypervisor took more than [Steal] of a window.
func (s *Sheet) WarnSteal(p *record.Pressure, l Limits) {
	if p != nil && p.StealRatio > l.Of(Steal) {
		s.Warn(NoteStolen, p.StealRatio*100)
	}
}
