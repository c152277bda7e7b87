package analysis

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/meshmark/meshmark/record"
	"github.com/meshmark/meshmark/study"
)

// highest begins the names of what searches find: highest_proxies.
const highest = "highest_"

// probeSearch marks findings that a search made over cells.
const probeSearch = "search"

// searches finds, for every combination of the other factors, the highest
// level of a searched factor at which the study's bound holds. Its interval
// goes from there to the first level at which it does not. The cell of such a
// finding lacks the factor.
func (o *observations) searches() []record.Finding {
	var out []record.Finding
	for _, g := range o.searchGroups() {
		if f, ok := o.search(g); ok {
			out = append(out, f)
		}
	}
	return out
}

// searchGroup is a search along one combination of the other factors.
type searchGroup struct {
	search   study.Search
	factor   study.Factor
	m        measure
	overhead bool
	cells    []int // by level, low to high
}

func (g searchGroup) level(o *observations, cell int) float64 {
	v, _ := g.factor.Value(o.plan.Cells[cell][g.search.Factor])
	return v
}

// searchGroups lists all searches in the order of the study and its cells.
func (o *observations) searchGroups() []searchGroup {
	var out []searchGroup
	for _, s := range o.plan.Study.Search {
		m, overhead, ok := measureNamed(o.plan.Study, s.Finding)
		if !ok {
			continue
		}
		factor, _ := study.FactorByName(s.Factor)
		at := map[string]int{}
		for i, cell := range o.plan.Cells {
			rest := cell.With(nil)
			delete(rest, s.Factor)
			if _, ok := factor.Value(cell[s.Factor]); !ok {
				continue
			}
			k, ok := at[rest.Key()]
			if !ok {
				k = len(out)
				at[rest.Key()] = k
				out = append(out, searchGroup{search: s, factor: factor, m: m, overhead: overhead})
			}
			out[k].cells = append(out[k].cells, i)
		}
	}
	for _, g := range out {
		slices.SortStableFunc(g.cells, func(a, b int) int { return cmp.Compare(g.level(o, a), g.level(o, b)) })
	}
	return out
}

// breaks says whether a cell breaks the bound, and how; ok is false for a
// cell without a trial.
func (o *observations) breaks(g searchGroup, cell int) (x record.Finding, how string, ok bool) {
	if !o.tried(cell) {
		return x, "", false
	}
	label := o.plan.Label(o.plan.Cells[cell])
	x, valid := o.searched(cell, g.m, g.overhead)
	if share := o.missedShare(cell); g.m.beyond > 0 && share > g.m.beyond {
		return x, fmt.Sprintf("at %s, %s of what proxies needed never came, or was never acknowledged: %s is beyond any bound", label, percent(share), g.search.Finding), true
	}
	if !valid {
		check, own := o.whyInvalid(cell)
		if !own {
			return x, "", false // that says nothing of istiod
		}
		return x, fmt.Sprintf("at %s no trial is valid: %s", label, check), true
	}
	if x.Estimate > g.search.Bound.Value {
		return x, fmt.Sprintf("at %s, %s is %s, beyond the bound of %s", label, g.search.Finding, quantity(x.Estimate, x.Unit), quantity(g.search.Bound.Value, g.search.Bound.Unit)), true
	}
	return x, "", true
}

// istiodsChecks are those that fail because of what istiod does, or cannot do.
var istiodsChecks = []string{"istiod-lived", "istiod-metrics", "connected"}

// whyInvalid names a check that made the cell's trials invalid, and says
// whether it is one of istiod's own; one that is comes before any other.
func (o *observations) whyInvalid(cell int) (check string, own bool) {
	key := o.plan.Cells[cell].Key()
	for i := range o.run.Trials {
		t := &o.run.Trials[i]
		if t.Validity.Valid || t.Cell.Key() != key {
			continue
		}
		for _, c := range t.Validity.Checks {
			if c.OK {
				continue
			}
			if slices.Contains(istiodsChecks, c.Name) {
				return c.Name, true
			}
			check = c.Name
		}
	}
	return check, false
}

// search walks up the levels of one combination; false if none was measured
// and nothing says why.
func (o *observations) search(g searchGroup) (record.Finding, bool) {
	rest := o.short(g.cells[0])
	delete(rest, g.search.Factor)
	f := record.Finding{Name: highest + g.search.Factor, Probe: probeSearch, Unit: g.factor.Unit, Cell: rest, Verdict: record.VerdictMeasured}
	kept := 0
	for _, i := range g.cells {
		x, how, ok := o.breaks(g, i)
		if below, left := o.leftOut(i); !ok && left {
			how = fmt.Sprintf("%s was not measured: %s breaks a bound already", o.plan.Label(o.plan.Cells[i]), o.plan.Label(o.plan.Cells[below]))
		} else if !ok {
			if check, _ := o.whyInvalid(i); check != "" {
				f.Warnings = append(f.Warnings, fmt.Sprintf("at %s no trial is valid (%s): what istiod can do there is not known", o.plan.Label(o.plan.Cells[i]), check))
			}
			break
		}
		if how != "" {
			f.High = g.level(o, i)
			f.Warnings = append(f.Warnings, how)
			if kept == 0 {
				f.Warnings = append(f.Warnings, "no level keeps within the bound")
			}
			return f, true
		}
		kept++
		f.Estimate, f.Blocks = g.level(o, i), x.Blocks
		f.Low, f.High = f.Estimate, f.Estimate
		if x.High > g.search.Bound.Value {
			f.Warnings = append(f.Warnings, fmt.Sprintf("at %s the interval of %s reaches %s, beyond the bound of %s", o.plan.Label(o.plan.Cells[i]),
				g.search.Finding, quantity(x.High, x.Unit), quantity(g.search.Bound.Value, g.search.Bound.Unit)))
		}
	}
	if kept == 0 {
		return f, false
	}
	f.Warnings = append(f.Warnings, fmt.Sprintf("no level that was measured breaks the bound of %s: the limit lies higher", quantity(g.search.Bound.Value, g.search.Bound.Unit)))
	return f, true
}

// leftOut names a cell that breaks a bound and lies below this one in all
// factors that are searched, so that this one need not be measured.
func (o *observations) leftOut(cell int) (below int, ok bool) {
	if o.tried(cell) {
		return 0, false
	}
	return o.brokenBelow(cell)
}

// above says whether a cell lies above another that breaks a bound.
func (o *observations) above(cell int) bool {
	_, ok := o.brokenBelow(cell)
	return ok
}

func (o *observations) brokenBelow(cell int) (below int, ok bool) {
	for _, broken := range o.broken() {
		if broken == cell {
			continue
		}
		above, a, b := true, o.plan.Cells[cell].With(nil), o.plan.Cells[broken].With(nil)
		for _, s := range o.plan.Study.Search {
			factor, _ := study.FactorByName(s.Factor)
			x, okX := factor.Value(a[s.Factor])
			y, okY := factor.Value(b[s.Factor])
			above = above && (okX && okY && x >= y || a[s.Factor] == b[s.Factor])
		}
		for _, s := range o.plan.Study.Search {
			delete(a, s.Factor)
			delete(b, s.Factor)
		}
		if above && a.Key() == b.Key() {
			return broken, true
		}
	}
	return 0, false
}

// broken lists the cells that were measured and break a bound.
func (o *observations) broken() []int {
	if o.brokenCells == nil {
		o.brokenCells = []int{}
		for _, g := range o.searchGroups() {
			for _, i := range g.cells {
				if _, how, ok := o.breaks(g, i); ok && how != "" {
					o.brokenCells = append(o.brokenCells, i)
					break
				}
			}
		}
	}
	return o.brokenCells
}

// tried says whether a cell has any trial, valid or not.
func (o *observations) tried(cell int) bool { return o.have[cell] }

// searched is the finding that a bound is for, in one cell. A search reads a
// single block too: it looks for an order of magnitude, not for a difference.
func (o *observations) searched(cell int, m measure, overhead bool) (record.Finding, bool) {
	if base, ok := o.baseline(cell); overhead && ok {
		f := o.overhead(cell, base, m)
		return f, f.Verdict != record.VerdictInvalid
	}
	f, ok := o.plain(cell, m)
	if !ok || overhead {
		return f, false
	}
	if f.Verdict == record.VerdictInvalid {
		values := slices.DeleteFunc(o.values(cell, m), func(v float64) bool { return !finite(v) })
		if len(values) == 0 {
			return f, false
		}
		f.Estimate, f.High, f.Blocks = values[0], values[0], 1
	}
	return f, true
}
