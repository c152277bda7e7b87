package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record"
)

// warnings are the run's warnings and those of its findings, each once.
// Warnings that differ in their figures only count as one, with the figures'
// range; those of findings name them, or of many the first and their number.
func (k Kind) warnings(f record.Findings) []string {
	groups := warningGroups{words: k.words}
	for _, w := range append(slices.Clone(f.Warnings), f.Machine.Remarks...) {
		groups.add(w, "", nil)
	}
	for i := range f.Findings {
		x := &f.Findings[i]
		if k.Told != nil && k.Told(*x) {
			continue
		}
		for j, w := range x.Warnings {
			reason := "" // the first says the reason
			if j == 0 {
				reason = x.Reason
			}
			// The verdict says it already.
			if reason != record.ReasonWithinMargin {
				groups.add(w, reason, x)
			}
		}
	}
	var out []string
	for _, g := range groups.all {
		out = append(out, g.line(groups.words))
	}
	return out
}

// warningGroup is several warnings that say the same, but for figures.
type warningGroup struct {
	shape, general string // what its warnings share, and say if their figures have several units
	texts          []string
	of             []*record.Finding // none for the run's own
}

type warningGroups struct {
	all   []*warningGroup
	words func(name string) string // of a finding
}

func (g *warningGroups) add(w, reason string, of *record.Finding) {
	general := calls[reason]
	shape := general
	if shape == "" {
		shape = shapeOf(w)
	}
	i := slices.IndexFunc(g.all, func(one *warningGroup) bool { return one.shape == shape })
	if i < 0 {
		i = len(g.all)
		g.all = append(g.all, &warningGroup{shape: shape, general: general})
	}
	g.all[i].texts = append(g.all[i].texts, w)
	if of != nil {
		g.all[i].of = append(g.all[i].of, of)
	}
}

// maxNamedFindings is how many findings a warning names; of more than
// manyFindings not even the first is.
const (
	maxNamedFindings = 3
	manyFindings     = 10
)

// MaxNamedCells bounds the cells that a note names.
const MaxNamedCells = 4

// line is a group's one line.
func (g *warningGroup) line(say func(string) string) string {
	w := g.texts[0]
	switch {
	case len(g.texts) > 1 && g.general != "": // their figures have several units
		w = g.general
	case len(g.of) > 0: // of the run's own the first is an example: figures of different trials make no range
		w = analysis.Spread(g.texts)
	}
	names := g.names(say)
	switch n := len(g.of); {
	case n == 0:
		return w
	case n == 1:
		return names[0] + ": " + w
	case len(names) <= maxNamedFindings:
		return fmt.Sprintf("%s (%s)", w, Sequence(names))
	case n > manyFindings:
		return fmt.Sprintf("%s (%s)", w, words.Plural(n, "finding"))
	default:
		return fmt.Sprintf("%s (%s, the first %s)", w, words.Plural(n, "finding"), names[0])
	}
}

// names are the group's findings in words, each name once with its cells.
func (g *warningGroup) names(words func(string) string) []string {
	var order []string
	cells := map[string][]string{}
	for _, x := range g.of {
		name := words(Measure(x.Name))
		if x.Against != nil {
			name = "difference of " + name
		}
		if cells[name] == nil {
			order = append(order, name)
		}
		cell := levelsOf(*x)
		if !slices.Contains(cells[name], cell) {
			cells[name] = append(cells[name], cell)
		}
	}
	for i, name := range order {
		if of := cells[name]; len(of) > MaxNamedCells {
			order[i] += fmt.Sprintf(" in %d cells", len(of))
		} else if where := Sequence(of); where != "" {
			order[i] += " with " + where
		}
	}
	return order
}

// levelsOf names the cell of a finding by its levels; "" if nothing varies.
func levelsOf(x record.Finding) string {
	var parts []string
	for _, factor := range Keys(x.Cell) {
		level := x.Cell[factor]
		if factor != "variant" && factor != "sidecars" {
			level = FactorName(factor) + " " + level
		}
		parts = append(parts, level)
	}
	return strings.Join(parts, ", ")
}

// calls are the reasons why a difference could not be called, with what they say
// of several whose figures have not the same unit.
var calls = map[string]string{
	record.ReasonIncludesZero: "the interval includes zero and reaches beyond the margin",
	record.ReasonWithinFloor:  "identical baselines differ by as much",
	record.ReasonMany:         "the interval excludes zero, but of so many differences some do by chance",
}

// shapeOf is a text without its figures.
func shapeOf(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r == '.' {
			return -1
		}
		return r
	}, s)
}
