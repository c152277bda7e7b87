package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
)

// Other returns the section of findings that no other section shows. leaveInvalid
// omits invalid findings.
func Other(findings finding.Table, leaveInvalid bool) Section {
	k := Kind{Findings: findings}
	return One(finding.SectionOther, func(f record.Findings) Table {
		return otherTable(k, f, leaveInvalid)
	}).Drawn("Other findings", "", nil)
}

// otherTable shows the findings that other sections do not show.
func otherTable(k Kind, f record.Findings, leaveInvalid bool) Table {
	t := Table{Title: "Other findings", Columns: append([]Column{{Head: "finding"}}, FactorColumns(f)...)}
	t.Columns = append(t.Columns, Column{Head: "estimate (95% interval)", Right: true}, Column{Head: "verdict", Keep: 8})
	largest := map[string]float64{}
	for _, x := range f.Findings {
		largest[x.Name] = math.Max(largest[x.Name], math.Abs(x.Estimate))
	}
	for _, x := range f.Findings {
		if !k.isOther(x) || leaveInvalid && x.Verdict == record.VerdictInvalid {
			continue
		}
		row := append([]Text{{S: k.words(x.Name)}}, FactorTexts(f, x.Cell)...)
		s := ScaleFor(x.Unit, largest[x.Name])
		cell := Figure(x, s)
		if cell.Style != StyleDim && s.Unit != "" {
			cell.S = WithInterval(s, x)
		}
		t.Rows = append(t.Rows, append(row, cell, Verdict(x.Verdict)))
	}
	return t
}

// isOther reports whether no other section shows a finding. Unwanted events that
// did not happen get no row.
func (k Kind) isOther(x record.Finding) bool {
	d, ok := k.Findings.Find(x.Name)
	return !ok || d.Section == finding.SectionOther && !(d.Fault && x.Verdict != record.VerdictReal)
}

// publishedTable compares figures of the literature with ours.
func (k Kind) publishedTable(f record.Findings) Table {
	t := Table{Title: "Published vs. measured", Columns: []Column{{Head: "source", Keep: 1}, {Head: "claim"}, {Head: "published", Right: true}, {Head: "measured (95% interval)", Right: true}}}
	for _, p := range f.Published {
		measured := Text{"not measured", StyleDim}
		largest := math.Abs(p.Figure)
		if m := p.Measured; m != nil {
			if m.Unit == p.Unit { // one scale for both
				largest = math.Max(largest, m.High)
			}
			s := ScaleFor(m.Unit, math.Max(largest, m.High))
			measured = Figure(*m, s)
			if m.Verdict != record.VerdictInvalid {
				measured.S = WithInterval(s, *m)
			}
		}
		t.Rows = append(t.Rows, []Text{{S: p.Source}, {S: k.claim(f, p)}, {S: ScaleFor(p.Unit, largest).Value(p.Figure)}, measured})
		if len(p.Says) > 0 {
			t.Notes = append(t.Notes, p.Source+": "+strings.Join(note.Texts(p.Says), " "))
		}
	}
	return t
}

// claim formats a published claim, with what was measured if several findings are
// compared with it.
func (k Kind) claim(f record.Findings, p record.Published) string {
	if slices.ContainsFunc(f.Published, func(q record.Published) bool { return q.Claim == p.Claim && q.Finding != p.Finding }) {
		return p.Claim + " (" + k.words(p.Finding) + ")"
	}
	return p.Claim
}

// noiseTable has one row per measure: the noise floor, as a range if several
// baseline cells have one each.
func (k Kind) noiseTable(f record.Findings, leaveZero bool) Table {
	t := Table{Title: "Noise floor: how much two identical baselines of a block differ"}
	t.Columns = []Column{{Head: "measure"}, {Head: "floor", Right: true}, {Head: "of its value", Right: true, Keep: 5}, {Head: "baselines", Right: true, Keep: 2}, {Head: "blocks", Right: true, Keep: 1}}
	byMeasure := map[string][]record.NoiseFloor{}
	var order []string
	for _, n := range f.NoiseFloor {
		if byMeasure[n.Measure] == nil {
			order = append(order, n.Measure)
		}
		byMeasure[n.Measure] = append(byMeasure[n.Measure], n)
	}
	components, trials := false, false
	for _, n := range f.NoiseFloor {
		components, trials = components || n.DeploymentsRatio > 0, trials || n.TrialsRatio > 0
	}
	if components {
		t.Columns = append(t.Columns, Column{Head: "between blocks", Right: true, Keep: 3}, Column{Head: "between deployments", Right: true, Keep: 4})
	}
	if trials {
		t.Columns = append(t.Columns, Column{Head: "between trials", Right: true, Keep: 3})
	}
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
			continue
		}
		s := ScaleFor(all[0].Unit, high)
		floor, relative := s.Value(high), Percent(relHigh)
		if len(all) > 1 {
			floor = s.Plain(low) + "–" + floor
			if Percent(relLow) != relative {
				relative = Fixed(100*relLow, 0) + "–" + relative
			}
		}
		row := []Text{{S: k.words(measure)}, {S: floor}, {S: relative}, {S: Count(len(all))}, {S: Count(int(blocks))}}
		of := []func(record.NoiseFloor) float64{func(n record.NoiseFloor) float64 { return n.BlocksRatio }, func(n record.NoiseFloor) float64 { return n.DeploymentsRatio }}
		if trials {
			of = append(of, func(n record.NoiseFloor) float64 { return n.TrialsRatio })
		}
		for _, value := range of {
			if components {
				_, most := floors(value)
				row = append(row, Text{S: Percent(most)})
			}
		}
		t.Rows = append(t.Rows, row)
	}
	if components && len(t.Rows) > 0 {
		t.Notes = append(t.Notes, componentsNote(trials))
	}
	return t
}

// componentsNote explains variance components; trials means that those of trials
// are separated from those of deployments.
func componentsNote(trials bool) string {
	s := "Between: standard deviations as shares of the value. Differences between blocks (drift) cancel in within-block differences"
	if trials {
		return s + "; those between identical deployments and trials do not."
	}
	return s + "; those between identical deployments, trials included, do not."
}

func assertionTable(f record.Findings) Table {
	t := Table{Title: "Assertions", Columns: []Column{{Head: "outcome"}, {Head: "assertion"}, {Head: "detail"}}}
	for _, a := range f.Assertions {
		outcome := Text{"passed", StyleGood}
		if !a.Passed {
			outcome = Text{"FAILED", StyleBad}
		}
		t.Rows = append(t.Rows, []Text{outcome, {S: a.Expr}, {S: a.Detail}})
	}
	return t
}

// WhyInvalid says why a finding has no figure.
func WhyInvalid(f record.Finding) string {
	switch f.Reason {
	case record.ReasonNotReached:
		return words.Unreached(f.Name)
	case record.ReasonTooFew:
		return words.TooFew(f.Name)
	}
	return "too few valid trials"
}

// Figure formats a finding's estimate and interval, or the text in its place.
func Figure(finding record.Finding, s Scale) Text {
	switch finding.Verdict {
	case record.VerdictInvalid:
		if finding.Reason == record.ReasonNotReached {
			return Text{"not reached", StyleBad}
		}
		if finding.Reason == record.ReasonTooFew {
			return Text{"too few", StyleDim}
		}
		return Text{"not valid", StyleDim}
	}
	open := finding.Reach(s.Plain(finding.Low), s.Plain(finding.High))
	switch {
	case finding.Trials != nil:
		return Text{S: inTrials(finding, s.Plain(finding.High))}
	case open != "":
		return Text{S: open}
	case alike(finding):
		return Text{S: s.Plain(finding.Estimate) + AllSame}
	}
	return Text{S: s.Interval(finding.Estimate, finding.Low, finding.High)}
}

// Dash is shown if there is no figure.
var Dash = Text{"–", StyleDim}

// AllSame marks a value that all blocks had; it has no interval.
const AllSame = " (same)"

// alike reports whether all blocks had a finding's value. The ends of a search's
// finding are levels that were tried, not an interval over blocks.
func alike(f record.Finding) bool { return OneValue(f.Low, f.High) && f.Probe != "search" }

// OneValue reports whether the ends of an interval are the same value except for
// rounding errors.
func OneValue(low, high float64) bool {
	return high-low <= 1e-9*math.Max(math.Abs(low), math.Abs(high))
}

// WithInterval formats a finding's estimate with its unit and interval, or says in
// how many blocks it was the same, or which end of it is known.
func WithInterval(s Scale, f record.Finding) string {
	open := f.Reach(s.Value(f.Low), s.Value(f.High))
	switch {
	case f.Trials != nil:
		return inTrials(f, s.Value(f.High))
	case open != "":
		return open
	case alike(f):
		return s.Value(f.Estimate) + fmt.Sprintf(" (same in %s)", allBlocks(f.Blocks))
	}
	return s.Quantity(f.Estimate, f.Low, f.High)
}

// inTrials says in how many trials an unwanted event happened, and the maximum:
// minimum and maximum are not an interval.
func inTrials(f record.Finding, most string) string {
	if f.Trials.With == 0 {
		return fmt.Sprintf("in none of %s", words.Plural(f.Trials.Of, "trial"))
	}
	return fmt.Sprintf("in %d of %s, at most %s", f.Trials.With, words.Plural(f.Trials.Of, "trial"), most)
}

func allBlocks(n int) string {
	if n == 2 {
		return "both blocks"
	}
	return fmt.Sprintf("all %d blocks", n)
}

// DoubtNote explains a question mark after a difference.
const DoubtNote = "? inconclusive: the interval includes zero, identical baselines differ as much, of so many differences some exclude zero by chance, or the generator's own lag is large beside it; see the warnings."

// Relative formats an overhead as a share of its baseline's own value, if there is
// a figure: "+549% (512–588)".
func Relative(finding record.Finding) Text {
	if finding.Relative == nil || finding.Verdict == record.VerdictInvalid {
		return Dash
	}
	e, span := Scale{Div: 0.01, Unit: "%"}.Parts(finding.Relative.Estimate, finding.Relative.Low, finding.Relative.High)
	if finding.Relative.Estimate > 0 {
		e = "+" + e
	}
	if OneValue(finding.Relative.Low, finding.Relative.High) {
		return Text{S: e + "%" + AllSame}
	}
	return Text{S: e + "% (" + span + ")"}
}

func Verdict(v string) Text {
	switch v {
	case record.VerdictReal, record.VerdictBetter:
		return Text{verdictWords(v), StyleStrong}
	case record.VerdictInvalid, record.VerdictWorse:
		return Text{verdictWords(v), StyleBad}
	}
	return Text{verdictWords(v), StyleDim}
}

// Differences indexes the findings of a name by cell.
func Differences(f record.Findings, name string) map[string]record.Finding {
	out := map[string]record.Finding{}
	for _, finding := range f.Findings {
		if finding.Name == name && finding.Against != nil {
			out[finding.Cell.Key()] = finding
		}
	}
	return out
}

// OwnValues indexes a cell's own values by name and cell.
func OwnValues(f record.Findings) map[string]record.Finding {
	out := map[string]record.Finding{}
	for _, x := range f.Findings {
		if x.Against == nil {
			out[x.Name+"\x00"+x.Cell.Key()] = x
		}
	}
	return out
}

// Lookup finds a cell's own measured value by finding.
type Lookup func(name string) (record.Finding, bool)

// MeasuredIn returns the lookup in a cell.
func MeasuredIn(plain map[string]record.Finding, cell record.Cell) Lookup {
	return func(name string) (record.Finding, bool) {
		x, ok := plain[name+"\x00"+cell.Key()]
		return x, ok && x.Verdict == record.VerdictMeasured
	}
}

// CellSentences returns a sentence about each of the first cells, up to most, for which of returns
// one, without the cell's name and the full stop.
func CellSentences(f record.Findings, most int, of func(c record.CellSummary, measured Lookup) string) []string {
	plain := OwnValues(f)
	var out []string
	for _, c := range f.Cells {
		sentence := of(c, MeasuredIn(plain, c.Cell))
		if sentence == "" || len(out) == most {
			continue
		}
		if len(f.Cells) > 1 {
			sentence = "with " + CellWords(c.Label) + ", " + sentence
		}
		out = append(out, UpperFirst(sentence+"."))
	}
	return out
}

// WithRest lists the parts that any cell has: the known ones in their order, then
// the others sorted.
func WithRest(known []string, cells []record.CellSummary, parts func(record.CellSummary) []string) []string {
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
	return append(out, slices.Sorted(maps.Keys(present))...)
}
