package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/finding"
	"github.com/meshtrial/meshtrial/record"
)

// latencyTable has a row a cell: percentiles from intended send time, and
// what the cell adds to its baseline at the median.
func latencyTable(f record.Findings) table {
	largest := 0.0
	for _, c := range f.Cells {
		if c.Valid > 0 {
			largest = math.Max(largest, c.Intended.P50)
		}
	}
	s := scaleFor("us", largest)
	t := table{Title: "Latency by cell, " + s.Unit + ", from when each request should have left"}
	t.Columns = append(factorColumns(f), column{"p50", true, 9}, column{"p90", true, 4}, column{"p99", true, 6}, column{"p99.9", true, 5})
	name, findings := "latency_p50_overhead", byCell(f, "latency_p50_overhead")
	if len(findings) > 0 {
		t.Columns = append(t.Columns, column{"adds at p50 (95% interval)", true, 0}, column{"of baseline", true, 2}, column{"verdict", false, 8})
	}
	t.Columns = append(t.Columns, column{"valid", true, 3}, column{"requests", true, 1})
	failed := int64(0)
	for _, c := range f.Cells {
		row := factorTexts(f, c.Cell)
		for _, v := range []float64{c.Intended.P50, c.Intended.P90, c.Intended.P99, c.Intended.P999} {
			if c.Valid == 0 {
				row = append(row, text{"–", styleDim})
			} else {
				row = append(row, text{S: s.plain(v)})
			}
		}
		if len(findings) > 0 {
			finding, ok := findings[c.Cell.Key()]
			switch {
			case c.Baseline:
				row = append(row, text{"baseline", styleDim}, text{}, text{})
			case !ok:
				row = append(row, text{"–", styleDim}, text{}, text{})
			default:
				row = append(row, figure(f, finding, s), relative(finding), verdict(finding.Verdict))
			}
		}
		valid := text{S: fmt.Sprintf("%d/%d", c.Valid, c.Trials)}
		if c.Valid < c.Trials {
			valid.Style = styleBad
		}
		row = append(row, valid, text{S: count(c.Requests)})
		t.Rows = append(t.Rows, row)
		failed += c.Failed
	}
	if failed > 0 {
		t.Notes = append(t.Notes, plural(failed, "request")+" failed; failed requests have no latency.")
	}
	if len(findings) > 0 {
		t.Notes = append(t.Notes, overheadNote(f, name))
	}
	return t
}

// overheadNote explains overhead intervals once.
func overheadNote(f record.Findings, name string) string {
	blocks, low := 0, math.MaxInt
	for _, x := range f.Findings {
		if x.Name == name {
			blocks, low = max(blocks, x.Blocks), min(low, x.Blocks)
		}
	}
	n := plural(blocks, "block")
	if low < blocks {
		n = fmt.Sprintf("%d to %s", low, n)
	}
	return "Overhead is the difference inside a block, over " + n + "; \"below noise\" means that two identical baselines differ by as much."
}

// overheadTable has what cells add at the other percentiles.
func overheadTable(f record.Findings) table {
	names := []string{"latency_p90_overhead", "latency_p99_overhead", "latency_p999_overhead"}
	var found []map[string]record.Finding
	t := table{Columns: factorColumns(f)}
	largest := 0.0
	for _, name := range names {
		m := byCell(f, name)
		if len(m) == 0 {
			continue
		}
		found = append(found, m)
		t.Columns = append(t.Columns, column{strings.Replace(strings.TrimSuffix(strings.TrimPrefix(name, "latency_"), finding.Overhead), "p999", "p99.9", 1), true, 9 - len(found)})
		for _, finding := range m {
			largest = math.Max(largest, math.Abs(finding.Estimate))
		}
	}
	s := scaleFor("us", largest)
	t.Title = "What it adds in the tail, " + s.Unit + " (95% interval)"
	for _, c := range f.Cells {
		row, any := factorTexts(f, c.Cell), false
		for _, m := range found {
			finding, ok := m[c.Cell.Key()]
			if !ok {
				row = append(row, text{"–", styleDim})
				continue
			}
			any = true
			cell := figure(f, finding, s)
			if finding.Verdict == record.VerdictInconclusive {
				cell.S += " ?"
			}
			row = append(row, cell)
		}
		if any {
			t.Rows = append(t.Rows, row)
		}
	}
	for _, row := range t.Rows {
		if slices.ContainsFunc(row, func(c text) bool { return strings.HasSuffix(c.S, " ?") }) {
			t.Notes = append(t.Notes, "? inconclusive: the interval includes zero, or the generator itself was late by much of it; the warnings say which.")
			break
		}
	}
	return t
}

// Other is the section of the findings that no section of their own shows.
// Those that are not valid are left out where the kind says so.
func Other(findings finding.Table, leaveInvalid bool) Section {
	k := Kind{Findings: findings}
	return one(finding.SectionOther, func(f record.Findings) table {
		return otherTable(k, f, leaveInvalid)
	})
}

// otherTable has the findings that other sections do not show.
func otherTable(k Kind, f record.Findings, leaveInvalid bool) table {
	t := table{Title: "Other findings", Columns: append([]column{{Head: "finding"}}, factorColumns(f)...)}
	t.Columns = append(t.Columns, column{"estimate (95% interval)", true, 0}, column{"verdict", false, 8})
	largest := map[string]float64{}
	for _, x := range f.Findings {
		largest[x.Name] = math.Max(largest[x.Name], math.Abs(x.Estimate))
	}
	for _, x := range f.Findings {
		if !k.isOther(x) || leaveInvalid && x.Verdict == record.VerdictInvalid {
			continue
		}
		row := append([]text{{S: k.words(x.Name)}}, factorTexts(f, x.Cell)...)
		s := scaleFor(x.Unit, largest[x.Name])
		cell := figure(f, x, s)
		if cell.Style != styleDim && s.Unit != "" {
			cell.S = withInterval(s, x)
		}
		t.Rows = append(t.Rows, append(row, cell, verdict(x.Verdict)))
	}
	return t
}

// isOther reports whether no other section shows a finding. What must not
// happen, and did not, is no row.
func (k Kind) isOther(x record.Finding) bool {
	d, ok := k.Findings.Find(x.Name)
	return !ok || d.Section == finding.SectionOther && !(d.Fault && x.Verdict != record.VerdictReal)
}

// publishedTable sets figures of the literature beside ours.
func (k Kind) publishedTable(f record.Findings) table {
	t := table{Title: "Published beside measured", Columns: []column{{Head: "source", Keep: 1}, {Head: "claim"}, {Head: "published", Right: true}, {Head: "measured (95% interval)", Right: true}}}
	for _, p := range f.Published {
		measured := text{"not measured", styleDim}
		largest := math.Abs(p.Figure)
		if m := p.Measured; m != nil {
			if m.Unit == p.Unit { // one scale for both
				largest = math.Max(largest, m.High)
			}
			s := scaleFor(m.Unit, math.Max(largest, m.High))
			measured = figure(f, *m, s)
			if measured.Style != styleDim {
				measured.S = withInterval(s, *m)
			}
		}
		claim := p.Claim
		if slices.ContainsFunc(f.Published, func(q record.Published) bool { return q.Claim == p.Claim && q.Finding != p.Finding }) {
			claim += " (" + k.words(p.Finding) + ")"
		}
		t.Rows = append(t.Rows, []text{{S: p.Source}, {S: claim}, {S: scaleFor(p.Unit, largest).value(p.Figure)}, measured})
	}
	return t
}

// noiseTable has a row a measure: the noise floor, as a range where several
// baseline cells have one each.
func (k Kind) noiseTable(f record.Findings, leaveZero bool) table {
	t := table{Title: "Noise floor: what two identical baselines of a block differ by"}
	t.Columns = []column{{Head: "measure"}, {"floor", true, 0}, {"of its value", true, 5}, {"baselines", true, 2}, {"blocks", true, 1}}
	byMeasure := map[string][]record.NoiseFloor{}
	var order []string
	for _, n := range f.NoiseFloor {
		if byMeasure[n.Measure] == nil {
			order = append(order, n.Measure)
		}
		byMeasure[n.Measure] = append(byMeasure[n.Measure], n)
	}
	same := 0
	for _, measure := range order {
		all := byMeasure[measure]
		floors := func(value func(record.NoiseFloor) float64) (low, high float64) {
			low, high = math.Inf(1), math.Inf(-1)
			for _, n := range all {
				low, high = math.Min(low, value(n)), math.Max(high, value(n))
			}
			return low, high
		}
		low, high := floors(func(n record.NoiseFloor) float64 { return n.Floor })
		relLow, relHigh := floors(func(n record.NoiseFloor) float64 { return n.RelativeRatio })
		_, blocks := floors(func(n record.NoiseFloor) float64 { return float64(n.Blocks) })
		if high == 0 && leaveZero {
			same++
			continue
		}
		s := scaleFor(all[0].Unit, high)
		floor, relative := s.value(high), percent(relHigh)
		if len(all) > 1 {
			floor = s.plain(low) + "–" + floor
			if p := percent(relLow); p != relative {
				relative = strings.TrimSuffix(p, "%") + "–" + relative
			}
		}
		t.Rows = append(t.Rows, []text{{S: k.words(measure)}, {S: floor}, {S: relative}, {S: count(len(all))}, {S: count(int(blocks))}})
	}
	if same > 0 && len(t.Rows) > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("%s in which identical baselines do not differ at all are left out.", plural(same, "measure")))
	}
	return t
}

func assertionTable(f record.Findings) table {
	t := table{Title: "Assertions", Columns: []column{{Head: "outcome"}, {Head: "assertion"}, {Head: "detail"}}}
	for _, a := range f.Assertions {
		outcome := text{"passed", styleGood}
		if !a.Passed {
			outcome = text{"FAILED", styleBad}
		}
		t.Rows = append(t.Rows, []text{outcome, {S: a.Expr}, {S: a.Detail}})
	}
	return t
}

// figure is a finding's estimate and interval, or what is said in its stead.
func figure(f record.Findings, finding record.Finding, s scale) text {
	switch finding.Verdict {
	case record.VerdictInvalid:
		return text{"not valid", styleDim}
	case record.VerdictBelowNoise:
		if n, ok := noiseOf(f, finding); ok {
			return text{"below noise (" + s.plain(n.Floor) + ")", styleDim}
		}
		return text{"below noise", styleDim}
	}
	if alike(finding) {
		return text{S: s.plain(finding.Estimate) + same}
	}
	return text{S: s.interval(finding.Estimate, finding.Low, finding.High)}
}

// same marks a value that all blocks gave: it has no interval.
const same = " (same)"

// alike says whether all blocks gave a finding's value. What a search found has
// levels that were tried for its ends, and no interval over blocks.
func alike(f record.Finding) bool { return oneValue(f.Low, f.High) && f.Probe != "search" }

// oneValue says whether the ends of an interval are one value but for what
// arithmetic leaves.
func oneValue(low, high float64) bool {
	return high-low <= 1e-9*math.Max(math.Abs(low), math.Abs(high))
}

// withInterval writes a finding's estimate with its unit and interval, or says
// in how many blocks it was the same.
func withInterval(s scale, f record.Finding) string {
	if alike(f) {
		return s.value(f.Estimate) + fmt.Sprintf(" (same in %s)", allBlocks(f.Blocks))
	}
	return s.quantity(f.Estimate, f.Low, f.High)
}

func allBlocks(n int) string {
	if n == 2 {
		return "both blocks"
	}
	return fmt.Sprintf("all %d blocks", n)
}

// relative is an overhead as a share of its baseline's own value, where a
// figure is given at all: "+549% (512–588)".
func relative(finding record.Finding) text {
	if finding.Relative == nil || finding.Verdict == record.VerdictInvalid || finding.Verdict == record.VerdictBelowNoise {
		return text{"–", styleDim}
	}
	e, span := scale{0.01, "%"}.parts(finding.Relative.Estimate, finding.Relative.Low, finding.Relative.High)
	if finding.Relative.Estimate > 0 {
		e = "+" + e
	}
	if oneValue(finding.Relative.Low, finding.Relative.High) {
		return text{S: e + "%" + same}
	}
	return text{S: e + "% (" + span + ")"}
}

func verdict(v string) text {
	switch v {
	case record.VerdictReal, record.VerdictBetter:
		return text{verdictWords(v), styleStrong}
	case record.VerdictInvalid, record.VerdictWorse:
		return text{verdictWords(v), styleBad}
	}
	return text{verdictWords(v), styleDim}
}

// byCell indexes the findings of a name by cell.
func byCell(f record.Findings, name string) map[string]record.Finding {
	out := map[string]record.Finding{}
	for _, finding := range f.Findings {
		if finding.Name == name && finding.Against != nil {
			out[finding.Cell.Key()] = finding
		}
	}
	return out
}

// withRest lists the parts that any cell has: the known ones in their order,
// then others sorted.
func withRest(known []string, cells []record.CellSummary, parts func(record.CellSummary) []string) []string {
	present := map[string]bool{}
	for _, c := range cells {
		for _, part := range parts(c) {
			present[part] = true
		}
	}
	var out []string
	for _, part := range known {
		if present[part] {
			out = append(out, part)
			delete(present, part)
		}
	}
	return append(out, mapKeys(present)...)
}

func mapKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
