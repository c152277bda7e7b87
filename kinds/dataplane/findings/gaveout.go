package findings

import (
	"fmt"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// proxiesChecks are the checks of a data-plane trial that fail because sidecars are overloaded, if
// no other check fails: requests are lost, or more and more of them wait.
var proxiesChecks = map[string]bool{"served": false, "backlog": false}

// generatorsChecks are the checks that say that the load itself was not as requested.
var generatorsChecks = map[string]bool{"schedule-lag": true, "schedule-fit": true, "schedule-rate": true, "generator-cpu": true}

// whose corrects a verdict on a data-plane cell that lies beyond a bound, or is invalid, if the
// cause was the machine or the generator, which says nothing about the proxies. In a cell without
// proxies they are all there is to measure.
//
// If a proxy's own threads are saturated, or its CPU limit throttles it, the limit is its own,
// whatever else happens. Otherwise it is not if the same load is beyond the bound without sidecars,
// if the generator could not keep up, or if the machine's CPUs were all in use.
func whose(o *analysis.Observations, v analysis.Verdict, s study.Search, cell, block int) analysis.Verdict {
	full := o.Plan.Cells[cell]
	if len(study.WayOf(full)) == 0 {
		return v
	}
	tried := o.Tried[cell][block]
	for _, t := range tried {
		for _, part := range study.ProxyParts {
			th, of := t.ThreadsOf(part)
			if of == 0 {
				continue
			}
			own := threadsSummary(part, of, []record.Threads{th}, t.Pressure)
			if v.Answer == analysis.Broke && own.Limit != "" && own.Limit != record.LimitMachine {
				v.Why = noteOwnLimit.Of(v.Why, own.Says)
				return v
			}
		}
	}
	if why := notTheirs(o, s, cell, block, tried); why != "" {
		return analysis.Verdict{Answer: analysis.Crowded, Why: noteGaveOut.Of(v.Why, why)}
	}
	return v
}

// passes reports whether the requests of a cell pass a proxy.
func passes(o *analysis.Observations, cell int, part string) bool {
	for _, t := range o.Valid(cell) {
		return study.WayOfTrial(t).Has(part)
	}
	return study.WayOf(o.Plan.Cells[cell]).Has(part)
}

// notTheirs explains why the results of a cell's trials are not caused by the proxies; "" if
// nothing indicates that.
func notTheirs(o *analysis.Observations, s study.Search, cell, block int, tried []*record.Trial) string {
	for _, t := range tried {
		for _, c := range t.Validity.Checks {
			if !c.OK && generatorsChecks[c.Name] {
				return c.Detail
			}
		}
		if p := t.Pressure; p != nil && p.BusyRatio >= busyRatio {
			return fmt.Sprintf("the machine's CPUs were %s busy, and no proxy was at its own limit", words.Percent(p.BusyRatio))
		}
	}
	bare := o.Plan.Study.Kind.Effective(o.Plan.Cells[cell].With(record.Cell{study.FactorSidecars: study.SidecarsNone}))
	i, ok := o.Plan.Index(bare)
	if !ok {
		return ""
	}
	m, overhead, ok := o.MeasureNamed(s.Finding)
	if !ok || overhead {
		return "" // the search is for the difference from it
	}
	v := o.Block(i, block, m.Searched())
	if math.IsNaN(v) { // it was not measured in this block
		if values := slices.DeleteFunc(slices.Clone(o.Values(i, m.Searched())), math.IsNaN); len(values) > 0 {
			v = stat.Median(values)
		}
	}
	if math.IsInf(v, 1) {
		return fmt.Sprintf("without sidecars %s lies among requests that failed, beyond the bound as well", s.Finding)
	}
	if bare := o.Answer(s, i, block); math.IsNaN(v) && bare.Answer == analysis.Broke {
		return "without sidecars as well: " + bare.Why.String()
	}
	if v > s.Bound.Value {
		return fmt.Sprintf("without sidecars %s is %s, beyond the bound as well", s.Finding, words.Quantity(v, m.Unit))
	}
	return ""
}
