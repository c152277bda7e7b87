package sections

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/report"
)

// dataAnswers returns the answers of a data-plane study.
//
// If cells differ from their baselines in one factor only, each level gets a sentence, or all
// levels share a few if they are many. If another factor is a number (connections), the sentences
// compare its ends, one for each level of the remaining factors (arrivals), and the headline says
// how the overhead grows.
func dataAnswers(f record.Findings) []string {
	if bills := append(billAnswers(f), hopAnswers(f)...); len(bills) > 0 {
		return append(bills, limitAnswers(f)...)
	}
	a := newAnswering(f)
	var latency []string
	switch {
	case a.name == "":
		latency = plainAnswers(f)
	case a.Numeric == nil && len(a.others) == 0:
		latency = append(a.flat(), waitingAnswers(f, a.top)...)
	default:
		latency = append(a.varied(), contentionAnswers(f, a.top)...)
	}
	searches := slices.Concat(report.SearchAnswers(f), versionAnswers(f), filterAnswers(f))
	if len(f.Profiles) > 0 { // the study asks where the CPU goes
		return slices.Concat(busyAnswers(f), cpuAnswers(f, nil), searches, fitAnswers(f, a.top), latency)
	}
	if fits := fitAnswers(f, a.top); len(fits) > 0 { // the study asks what CPU depends on
		return slices.Concat(searches, fits, latency, limitAnswers(f))
	}
	return slices.Concat(searches, latency, cpuAnswers(f, a.top), nodeAnswers(f, a.top), limitAnswers(f))
}

// plainAnswers states the measurements of a study without comparisons.
func plainAnswers(f record.Findings) []string {
	low, high, n := record.CellSummary{}, record.CellSummary{}, 0
	for _, c := range f.Cells {
		if c.Valid == 0 || c.Intended.At(0.5) == 0 {
			continue
		}
		if n == 0 || c.Intended.At(0.5) < low.Intended.At(0.5) {
			low = c
		}
		if n == 0 || c.Intended.At(0.5) > high.Intended.At(0.5) {
			high = c
		}
		n++
	}
	s := report.ScaleFor("us", high.Intended.At(0.5))
	switch n {
	case 0:
		return nil
	case 1:
		if high.Intended.At(0.99) == 0 {
			return []string{fmt.Sprintf("The median latency is %s.", s.Value(high.Intended.At(0.5)))}
		}
		return []string{fmt.Sprintf("The median latency is %s, and 1 in 100 requests takes over %s.",
			s.Value(high.Intended.At(0.5)), s.Value(high.Intended.At(0.99)))}
	}
	return []string{fmt.Sprintf("The median latency lies between %s (%s) and %s (%s).",
		s.Value(low.Intended.At(0.5)), low.Label, s.Value(high.Intended.At(0.5)), high.Label)}
}

// Names of the differences in headlines.
const (
	overheadP50 = "latency_p50" + finding.Overhead
	overheadP99 = "latency_p99" + finding.Overhead
)

// answering is the layout of a study's overhead findings.
type answering struct {
	report.Layout
	name    string                    // the primary finding
	by      map[string]record.Finding // overhead findings by name and cell
	others  []string                  // varying factors that are neither compared nor the numeric one
	tops    []record.Cell
	top     record.Cell // levels of the compared factors in the headline
	against record.Cell // one of their baselines
}

func newAnswering(f record.Findings) *answering {
	a := &answering{Layout: report.LayoutOf(f), by: map[string]record.Finding{}}
	table := Kind().Findings
	for _, x := range f.Findings {
		if d, ok := table.Find(x.Name); x.Against == nil || !ok || !d.Difference {
			continue
		}
		if a.name == "" || x.Name == overheadP50 {
			a.name = x.Name
		}
		a.by[x.Name+"\x00"+x.Cell.Key()] = x
	}
	for _, factor := range a.Factors {
		if !slices.Contains(a.Compared, factor.Factor) && (a.Numeric == nil || factor.Factor != a.Numeric.Factor) {
			a.others = append(a.others, factor.Factor)
		}
	}
	seen := map[string]bool{}
	for _, cell := range f.Cells { // in plan order
		x, ok := a.find(a.name, cell.Cell)
		if !ok {
			continue
		}
		top := report.Pick(cell.Cell, a.Compared)
		if a.against = x.Against; !seen[top.Key()] {
			seen[top.Key()] = true
			a.tops = append(a.tops, top)
		}
	}
	if len(a.tops) > 0 && len(a.Compared) > 0 {
		a.top = a.tops[len(a.tops)-1]
	} else {
		a.name = ""
	}
	return a
}

func (a *answering) find(name string, cell record.Cell) (record.Finding, bool) {
	found, ok := a.by[name+"\x00"+cell.Key()]
	return found, ok
}

// flat answers a study in which only the compared factors vary, starting with the costliest level
// (the last).
func (a *answering) flat() []string {
	if len(a.tops) > maxSentences {
		return a.grouped()
	}
	var answers []string
	for _, top := range slices.Backward(a.tops) {
		p50, ok := a.find(a.name, top)
		if !ok {
			continue
		}
		if top.Key() != a.top.Key() {
			answers = append(answers, a.sentence(p50, ""))
			continue
		}
		answers = append(answers, a.sentence(p50, a.from(p50)))
		if p99, ok := a.find(overheadP99, top); ok && a.name == overheadP50 {
			answers = append(answers, a.sentence(p99, ""))
		}
	}
	return answers
}

// label returns a cell's name in legends.
func (a *answering) label(cell record.Cell) string {
	for _, c := range a.Findings.Cells {
		if c.Cell.Key() == cell.Key() && c.Label != "" {
			return c.Label
		}
	}
	who, _ := report.Subject(record.Finding{Cell: cell, Against: a.against})
	return report.UpperFirst(who)
}

// from states the baseline's own median: " of 0.101 ms".
func (a *answering) from(x record.Finding) string {
	if x.Name != overheadP50 || x.Verdict != record.VerdictReal {
		return ""
	}
	for _, c := range a.Findings.Cells {
		if c.Cell.Key() == x.Against.Key() && c.Valid > 0 {
			s := report.ScaleOf(x)
			v := c.Intended.At(0.5) / s.Div
			return " of " + report.Join(report.Fixed(v, report.Clamp(1-report.Magnitude(v), 0, 6)), s.Unit)
		}
	}
	return ""
}

// adds returns the verb for what is compared with a baseline.
func adds(many bool) string {
	if many {
		return "add"
	}
	return "adds"
}

// sentence states one finding. context, such as the place or amount, follows what was measured.
func (a *answering) sentence(x record.Finding, context string) string {
	who, many := report.Subject(x)
	verb, what := adds(many), Kind().Phrase(x.Name)+context
	s := report.ScaleOf(x).Bare() // the measure's name has the rest of the unit
	e, span := s.Parts(x.Estimate, x.Low, x.High)
	figure := fmt.Sprintf("%s (95%% interval %s)", report.Join(e, s.Unit), span)
	switch {
	case x.Verdict == record.VerdictInvalid:
		return fmt.Sprintf("What %s %s to %s is unknown: %s.", who, verb, what, report.WhyInvalid(x))
	case x.Verdict == record.VerdictNoEffect:
		return report.UpperFirst(fmt.Sprintf("%s %s no overhead to %s beyond %s (95%% interval %s).", who, verb, what,
			s.Value(x.Margin), span))
	case x.Verdict == record.VerdictInconclusive && slices.Contains([]string{"", record.ReasonIncludesZero, record.ReasonNoInterval, record.ReasonFloorUnknown}, x.Reason):
		from, to := s.Ends(x.Estimate, x.Low, x.High)
		return report.UpperFirst(fmt.Sprintf("%s %s between %s and %s to %s: too wide to call.%s", who, verb, from,
			report.Join(to, s.Unit), what, missed(x, s)))
	case x.Verdict == record.VerdictInconclusive:
		return fmt.Sprintf("What %s %s to %s is inconclusive: %s. %s.", who, verb, what, figure,
			report.UpperFirst(x.Warnings[0].String()))
	case x.High < 0:
		e, span := s.Parts(-x.Estimate, -x.High, -x.Low)
		takes := "takes"
		if many {
			takes = "take"
		}
		return report.UpperFirst(fmt.Sprintf("%s %s %s (95%% interval %s) off %s.", who, takes,
			report.Join(e, s.Unit), span, what))
	}
	return report.UpperFirst(fmt.Sprintf("%s %s %s to %s.", who, verb, figure, what))
}

// missed states the smallest effect that the run would have found.
func missed(x record.Finding, s report.Scale) string {
	if x.MDE <= 0 {
		return ""
	}
	return fmt.Sprintf(" Minimum detectable effect at 80%% power: %s.", s.Value(x.MDE))
}

// varied answers a study in which other factors vary in addition to the compared ones.
func (a *answering) varied() []string {
	var sentences, growth []string
	levels := []string{""}
	if a.Numeric != nil {
		levels = slices.SortedFunc(slices.Values(a.Numeric.Levels), func(x, y string) int {
			return int(math.Copysign(1, report.Number(x)-report.Number(y)))
		})
	}
	combinations := a.combinations()
	for _, other := range combinations {
		var context []string
		for _, factor := range a.others {
			context = append(context, report.FactorWords(factor, other[factor]))
		}
		var ends []record.Finding
		for _, level := range levels {
			cell := a.top.With(other)
			if a.Numeric != nil {
				cell[a.Numeric.Factor] = level
			}
			if x, ok := a.find(a.name, cell); ok {
				ends = append(ends, x)
			}
		}
		if len(ends) == 0 {
			continue
		}
		first, last := ends[0], ends[len(ends)-1]
		if len(ends) == 1 || first.Verdict != record.VerdictReal || last.Verdict != record.VerdictReal ||
			first.Estimate <= 0 {
			for i, end := range []record.Finding{first, last} {
				if i == 0 || len(ends) > 1 {
					sentences = append(sentences, a.sentence(end, a.at(context, end)))
				}
			}
			continue
		}
		sentences = append(sentences, a.both(context, first, last))
		growth = append(growth, strings.Join(append([]string{growthWords(first, last)}, context...), " "))
	}
	if len(growth) > 0 && len(growth) == len(combinations) && len(levels) > 1 {
		who, many := report.Subject(record.Finding{Cell: a.top, Against: report.Pick(a.against, a.Compared)})
		head := fmt.Sprintf("From %s to %s, what %s %s to %s %s.", levels[0],
			report.LevelLabel(*a.Numeric, levels[len(levels)-1]),
			who, adds(many), Kind().Phrase(a.name), words.List(growth))
		sentences = append([]string{head}, sentences...)
	}
	return sentences
}

// at says which cells a finding is from.
func (a *answering) at(context []string, x record.Finding) string {
	words := context
	if a.Numeric != nil {
		words = append(slices.Clone(words), report.FactorWords(a.Numeric.Factor, x.Cell[a.Numeric.Factor]))
	}
	if len(words) == 0 {
		return ""
	}
	return " " + strings.Join(words, " ")
}

// both states what is added at both ends of the numeric factor.
func (a *answering) both(context []string, first, last record.Finding) string {
	who, many := report.Subject(first)
	s := report.ScaleFor(first.Unit, math.Max(first.Estimate, last.Estimate)).Bare()
	out := fmt.Sprintf("%s %s %s to %s %s and %s %s.", who, adds(many),
		s.Quantity(first.Estimate, first.Low, first.High), Kind().Phrase(a.name), report.FactorWords(a.Numeric.Factor,
			first.Cell[a.Numeric.Factor]),
		s.Quantity(last.Estimate, last.Low, last.High), report.FactorWords(a.Numeric.Factor,
			last.Cell[a.Numeric.Factor]))
	if len(context) > 0 {
		out = strings.Join(context, " ") + ", " + out
	}
	return report.UpperFirst(out)
}

// growthWords describes how an overhead changes from one end of a factor to the other.
func growthWords(first, last record.Finding) string {
	ratio := last.Estimate / first.Estimate
	switch {
	case first.Low <= last.High && last.Low <= first.High:
		return "stays the same within its interval"
	case ratio >= 2:
		return "grows " + report.Fixed(ratio, report.Clamp(1-report.Magnitude(ratio), 0, 1)) + "-fold"
	case ratio >= 1:
		return "grows by " + report.Percent(ratio-1)
	}
	return "falls by " + report.Percent(1-ratio)
}

// combinations lists the levels of the factors that are neither compared nor the numeric one, in
// cell order.
func (a *answering) combinations() []record.Cell {
	var all []record.Cell
	seen := map[string]bool{}
	for _, cell := range a.Findings.Cells {
		other := report.Pick(cell.Cell, a.others)
		if key := other.Key(); !seen[key] {
			seen[key] = true
			all = append(all, other)
		}
	}
	return all
}
