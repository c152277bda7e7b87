package analysis

import (
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
	for _, s := range o.plan.Study.Search {
		m, overhead, ok := measureNamed(o.plan.Study, s.Finding)
		if !ok {
			continue
		}
		factor, _ := study.FactorByName(s.Factor)
		groups := map[string][]int{}
		var order []string
		for i, cell := range o.plan.Cells {
			rest := cell.With(nil)
			delete(rest, s.Factor)
			if _, ok := factor.Value(cell[s.Factor]); !ok {
				continue
			}
			if groups[rest.Key()] == nil {
				order = append(order, rest.Key())
			}
			groups[rest.Key()] = append(groups[rest.Key()], i)
		}
		for _, key := range order {
			out = append(out, o.search(s, factor, m, overhead, groups[key]))
		}
	}
	return out
}

// search walks up the levels of one combination.
func (o *observations) search(s study.Search, factor study.Factor, m measure, overhead bool, cells []int) record.Finding {
	level := func(i int) float64 { v, _ := factor.Value(o.plan.Cells[i][s.Factor]); return v }
	slices.SortStableFunc(cells, func(a, b int) int {
		if d := level(a) - level(b); d != 0 {
			return int(d / max(d, -d))
		}
		return 0
	})
	rest := o.short(cells[0])
	delete(rest, s.Factor)
	f := record.Finding{Name: highest + s.Factor, Probe: probeSearch, Unit: factor.Unit, Cell: rest, Verdict: record.VerdictMeasured}
	bound := quantity(s.Bound.Value, s.Bound.Unit)
	kept := 0
	for _, i := range cells {
		x, ok := o.searched(i, m, overhead)
		if !ok {
			if o.tried(i) {
				f.High = level(i)
				f.Warnings = append(f.Warnings, fmt.Sprintf("at %s no trial is valid", o.plan.Label(o.plan.Cells[i])))
				return found(f, kept)
			}
			break
		}
		if share := o.missedShare(i); m.beyond > 0 && share > m.beyond {
			f.High = level(i)
			f.Warnings = append(f.Warnings, fmt.Sprintf("at %s, %s of what proxies needed never came: %s is beyond any bound", o.plan.Label(o.plan.Cells[i]), percent(share), s.Finding))
			return found(f, kept)
		}
		if x.Estimate > s.Bound.Value {
			f.High = level(i)
			f.Warnings = append(f.Warnings, fmt.Sprintf("at %s, %s is %s, beyond the bound of %s", o.plan.Label(o.plan.Cells[i]), s.Finding, quantity(x.Estimate, x.Unit), bound))
			return found(f, kept)
		}
		kept++
		f.Estimate, f.Low, f.High, f.Blocks = level(i), level(i), level(i), x.Blocks
		if x.High > s.Bound.Value {
			f.Warnings = append(f.Warnings, fmt.Sprintf("at %s the interval of %s reaches %s, beyond the bound of %s", o.plan.Label(o.plan.Cells[i]), s.Finding, quantity(x.High, x.Unit), bound))
		}
	}
	if kept == 0 {
		return invalid(f, 0)
	}
	f.Warnings = append(f.Warnings, fmt.Sprintf("no level that was measured breaks the bound of %s: the limit lies higher", bound))
	return f
}

// found ends a search at a level that breaks the bound.
func found(f record.Finding, kept int) record.Finding {
	if kept == 0 {
		f.Warnings = append(f.Warnings, "no level keeps within the bound")
	}
	return f
}

// tried says whether a cell has any trial, valid or not.
func (o *observations) tried(cell int) bool {
	for i := range o.run.Trials {
		if k, ok := o.plan.Index(o.run.Trials[i].Cell); ok && k == cell {
			return true
		}
	}
	return false
}

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
