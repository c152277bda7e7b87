package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
)

// warnings returns the warnings of the run and of its findings, each once. Similar
// warnings count as one, with the range of their figures. Warnings of findings name
// these, or the first of many and their number.
func (k Kind) warnings(f record.Findings) []string {
	var groups []warningGroup
	add := func(w note.Note, of *record.Finding) {
		i := slices.IndexFunc(groups, func(g warningGroup) bool { return g.notes[0].Like(w) })
		if i < 0 {
			i = len(groups)
			groups = append(groups, warningGroup{})
		}
		g := &groups[i]
		if g.notes = append(g.notes, w); of != nil {
			g.of = append(g.of, of)
		}
	}
	for _, w := range f.Warnings {
		add(w, nil)
	}
	for _, remark := range f.Machine.Remarks {
		add(note.Plain(remark), nil)
	}
	for i := range f.Findings {
		x := &f.Findings[i]
		if k.Told != nil && k.Told(*x) {
			continue
		}
		for j, w := range x.Warnings {
			if j > 0 || x.Reason != record.ReasonWithinMargin { // the verdict already says it
				add(w, x)
			}
		}
	}
	var out []string
	for _, g := range groups {
		out = append(out, g.line(k.words))
	}
	return out
}

// warningGroup is a group of warnings that differ only in their figures.
type warningGroup struct {
	notes []note.Note
	of    []*record.Finding // empty for the run's own warnings
}

// maxNamedFindings is the maximum number of findings that a warning names. With more
// than manyFindings it does not name even the first.
const (
	maxNamedFindings = 3
	manyFindings     = 10
)

// MaxNamedCells limits the cells that a note names.
const MaxNamedCells = 4

// line formats a group as one line.
func (g *warningGroup) line(say func(string) string) string {
	w := g.notes[0].String() // for the run's own warnings, figures of different trials are not a range
	if len(g.of) > 0 {
		w = note.Together(g.notes).String()
	}
	names := g.names(say)
	switch n := len(g.of); {
	case n == 0:
		return w
	case n == 1:
		return names[0] + ": " + w
	case len(names) <= maxNamedFindings:
		return fmt.Sprintf("%s (%s)", w, words.List(names))
	case n > manyFindings:
		return fmt.Sprintf("%s (%s)", w, words.Plural(n, "finding"))
	default:
		return fmt.Sprintf("%s (%s, the first %s)", w, words.Plural(n, "finding"), names[0])
	}
}

// names returns the group's findings in words, each name once with its cells.
func (g *warningGroup) names(say func(string) string) []string {
	var order []string
	cells := map[string][]string{}
	for _, x := range g.of {
		name := say(Measure(x.Name))
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
		} else if where := words.List(of); where != "" {
			order[i] += " with " + where
		}
	}
	return order
}

// levelsOf names the cell of a finding by its levels; "" if nothing varies.
func levelsOf(x record.Finding) string {
	var parts []string
	for _, factor := range slices.Sorted(maps.Keys(x.Cell)) {
		level := x.Cell[factor]
		if factor != "variant" && factor != "sidecars" {
			level = FactorName(factor) + " " + level
		}
		parts = append(parts, level)
	}
	return strings.Join(parts, ", ")
}
