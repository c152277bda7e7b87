package findings

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// A duel is a pair of cells that differ in one factor only.
type duel struct {
	of, against int // cells of the plan
	level       string
}

// versus compares versions of the proxy, each with the previous one and the newest with the oldest
// (MEASURE_change_since_VERSION: the relative growth), and filters of the server's proxy, each with
// none and with the others (MEASURE_saved_by_FILTER: the share saved by having that filter
// instead). Blocks are paired: both cells were measured within minutes. The intervals of a measure
// hold for all comparisons of a factor simultaneously, and everything called real shares one error
// rate over all measures.
func versus(o *analysis.Observations) []record.Finding {
	all := told{o: o}
	versions, filters := versions(o), filters(o)
	pairs := 0 // two directions are one comparison
	for _, d := range filters {
		if o.Plan.Cells[d.against][dataplane.FactorFilters] == dataplane.FiltersNone || d.of < d.against {
			pairs++
		}
	}
	for _, d := range versions {
		for _, m := range versusMeasures(o, dataplane.ChangeSince) {
			_, grown := o.Apart(d.of, d.against, m, allOf(len(versions)))
			fought(&all, d, m, grown, dataplane.ChangeSince)
		}
	}
	for _, d := range filters {
		for _, m := range versusMeasures(o, dataplane.SavedBy) {
			_, saved := o.Apart(d.against, d.of, m, allOf(pairs))
			saved.Value, saved.Low, saved.High = -saved.Value, -saved.High, -saved.Low
			fought(&all, d, m, saved, dataplane.SavedBy)
		}
	}
	return all.judge()
}

// versusMeasures returns the measures for comparing two levels that have a finding with this
// suffix.
func versusMeasures(o *analysis.Observations, words string) []analysis.Measure {
	table := study.DataPlane.Findings()
	return slices.DeleteFunc(o.Measures(), func(m analysis.Measure) bool {
		_, ok := table.Find(versusName(m, words) + "*")
		return !ok
	})
}

// versusName returns the prefix of such a finding's name.
func versusName(m analysis.Measure, words string) string {
	return strings.TrimSuffix(m.Name, "_per_request") + words
}

// versions returns the pairs of cells that differ in the version of Envoy.
func versions(o *analysis.Observations) (out []duel) {
	for _, cells := range alike(o, study.FactorEnvoy) {
		slices.SortFunc(cells, func(a, b int) int {
			return compareVersions(o.Plan.Cells[a][study.FactorEnvoy], o.Plan.Cells[b][study.FactorEnvoy])
		})
		pair := func(of, against int) duel { return duel{of, against, o.Plan.Cells[against][study.FactorEnvoy]} }
		for i := 1; i < len(cells); i++ {
			out = append(out, pair(cells[i], cells[i-1]))
		}
		if last := len(cells) - 1; last > 1 {
			out = append(out, pair(cells[last], cells[0]))
		}
	}
	return out
}

// filters returns the pairs of cells that differ in the filters of the server's proxy, where the
// first has some. Two cells that both have some are paired in both directions.
func filters(o *analysis.Observations) (out []duel) {
	if dataplane.Of(o.Plan.Study).Bill != nil {
		return nil // the bill reports it
	}
	for _, cells := range alike(o, dataplane.FactorFilters) {
		for _, of := range cells {
			for _, against := range cells {
				level, other := o.Plan.Cells[of][dataplane.FactorFilters], o.Plan.Cells[against][dataplane.FactorFilters]
				if level != dataplane.FiltersNone && level != other {
					out = append(out, duel{of, against, other})
				}
			}
		}
	}
	return out
}

// alike groups the measured cells by all factors but one, which must apply to them. It omits groups
// of one.
func alike(o *analysis.Observations, factor string) (out [][]int) {
	byKey := map[string]int{}
	for i, cell := range o.Plan.Cells {
		if level := cell[factor]; level == "" || level == study.NotApplicable || o.Skipped(i) {
			continue
		}
		key := without(o, cell, factor).Key()
		at, ok := byKey[key]
		if !ok {
			at = len(out)
			byKey[key] = at
			out = append(out, nil)
		}
		out[at] = append(out[at], i)
	}
	return slices.DeleteFunc(out, func(cells []int) bool { return len(cells) < 2 })
}

// fought adds the comparison of two cells in one measure, or nothing if no unit has both. It gets
// one of three verdicts, like every difference.
func fought(all *told, d duel, m analysis.Measure, e stat.Estimate, kind string) {
	o := all.o
	if e.Blocks == 0 || !stat.Finite(e.Value) {
		return
	}
	f := o.Named(versusName(m, kind)+slug(d.level), o.Short(d.of))
	f.Against = o.Short(d.against)
	e.SE = math.NaN() // that of a logarithm: it does not give a smallest effect
	one := analysis.Difference{Estimate: e, Say: words.Percent, OnePods: o.SamePods(), Floor: duelFloor(o, d, m)}
	if e.Blocks < analysis.MinBlocks || !e.Defined() {
		f.Warnings = e.Warnings
		all.add(analysis.Invalid(f, e.Blocks), one, m, 1) // no interval means no number
		return
	}
	whole := d.against // the share is of its value
	if kind == dataplane.SavedBy {
		whole = d.of
	}
	level := stat.Mean(o.Values(whole, m), stat.Options{}).Value
	all.add(one.Put(f, float64(o.Plan.Study.Margin)), one, m, level, d.of, d.against)
}

// duelFloor returns the noise floor of identical cells as a share: from whichever of the two is
// deployed twice, or else from the baseline of both. If that lacks the measure, as one without a
// sidecar lacks its CPU, there is none, and only the interval decides.
func duelFloor(o *analysis.Observations, d duel, m analysis.Measure) stat.Floor {
	cells := []int{d.against, d.of}
	if base, ok := o.Baseline(d.against); ok {
		cells = append(cells, base)
	}
	for _, cell := range cells {
		if !o.Plan.IsBaseline(o.Plan.Cells[cell]) {
			continue
		}
		f, level := o.Floor(cell, m)
		if f = f.Over(level); stat.Finite(f.Value) {
			return f
		}
	}
	return stat.Floor{}
}

// compareVersions orders versions numerically; default is the newest.
func compareVersions(a, b string) int {
	numbers := func(version string) (out []int) {
		if version == study.EnvoyDefault {
			return []int{math.MaxInt}
		}
		for part := range strings.SplitSeq(version, ".") {
			n, _ := strconv.Atoi(part)
			out = append(out, n)
		}
		return out
	}
	return slices.Compare(numbers(a), numbers(b))
}
