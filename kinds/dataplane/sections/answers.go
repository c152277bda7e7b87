package sections

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// dataAnswers are the answers of a data-plane study.
//
// Where cells differ from their baselines in one factor only, each level gets
// a sentence, or all together a few if they are many. Where another factor is a
// number (connections), the sentences compare its ends, one for each level of
// the remaining factors (arrivals), and the headline says how the overhead
// grows.
func dataAnswers(f record.Findings) []string {
	if bills := append(billAnswers(f), hopAnswers(f)...); len(bills) > 0 {
		return append(bills, limitAnswers(f)...)
	}
	a := newAnswering(f)
	var latency []string
	switch {
	case a.name == "":
		latency = plainAnswers(f)
	case a.numeric == "" && len(a.others) == 0:
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

// plainAnswers says what a study measured that compares nothing.
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
		return []string{fmt.Sprintf("The median latency is %s, and 1 in 100 requests takes over %s.", s.Value(high.Intended.At(0.5)), s.Value(high.Intended.At(0.99)))}
	}
	return []string{fmt.Sprintf("The median latency lies between %s (%s) and %s (%s).", s.Value(low.Intended.At(0.5)), low.Label, s.Value(high.Intended.At(0.5)), high.Label)}
}

// answering is how the overhead findings of a study are laid out.
type answering struct {
	f        record.Findings
	name     string                    // the primary finding
	by       map[string]record.Finding // overhead findings by name and cell
	compared []string                  // factors in which a cell differs from its baseline
	numeric  string                    // a varying factor whose levels are numbers, or ""
	others   []string                  // the remaining varying factors
	tops     []record.Cell
	top      record.Cell // levels of the compared factors that the headline is about
	against  record.Cell // a baseline of those
}

func newAnswering(f record.Findings) *answering {
	a := &answering{f: f, by: map[string]record.Finding{}}
	for _, finding := range f.Findings {
		if finding.Against == nil || !strings.HasSuffix(finding.Name, "_overhead") {
			continue
		}
		if a.name == "" || finding.Name == "latency_p50_overhead" {
			a.name = finding.Name
		}
		a.by[finding.Name+"\x00"+finding.Cell.Key()] = finding
	}
	differs := map[string]bool{}
	seen := map[string]bool{}
	for _, finding := range f.Findings {
		if finding.Name != a.name {
			continue
		}
		for factor, level := range finding.Cell {
			if finding.Against[factor] != level {
				differs[factor] = true
				a.against = finding.Against
			}
		}
	}
	for _, factor := range f.Factors {
		switch {
		case differs[factor.Factor]:
			a.compared = append(a.compared, factor.Factor)
		case len(factor.Levels) < 2:
		case a.numeric == "" && report.Numbers(factor.Levels):
			a.numeric = factor.Factor
		default:
			a.others = append(a.others, factor.Factor)
		}
	}
	for _, cell := range f.Cells { // in the plan's order
		if _, ok := a.by[a.name+"\x00"+cell.Cell.Key()]; !ok {
			continue
		}
		top := report.Pick(cell.Cell, a.compared)
		if !seen[top.Key()] {
			seen[top.Key()] = true
			a.tops = append(a.tops, top)
		}
	}
	if len(a.tops) > 0 && len(a.compared) > 0 {
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

// flat answers a study with nothing but the compared factors, costliest (the
// last level) first.
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
		of := ""
		if top.Key() == a.top.Key() {
			of = a.from(p50)
		}
		answers = append(answers, a.sentence(p50, of))
		p99, ok := a.find(strings.Replace(a.name, "p50", "p99", 1), top)
		if ok && p99.Name != p50.Name && top.Key() == a.top.Key() {
			answers = append(answers, a.sentence(p99, ""))
		}
	}
	return answers
}

// label is a cell's name in legends.
func (a *answering) label(cell record.Cell) string {
	for _, c := range a.f.Cells {
		if c.Cell.Key() == cell.Key() && c.Label != "" {
			return c.Label
		}
	}
	who, _ := report.Subject(record.Finding{Cell: cell, Against: a.against})
	return who
}

// from says what the baseline's own median is: " of 0.101 ms".
func (a *answering) from(f record.Finding) string {
	if f.Name != "latency_p50_overhead" || f.Verdict != record.VerdictReal {
		return ""
	}
	for _, c := range a.f.Cells {
		if c.Cell.Key() == f.Against.Key() && c.Valid > 0 {
			s := report.ScaleOf(f)
			v := c.Intended.At(0.5) / s.Div
			return " of " + report.Join(report.Fixed(v, report.Clamp(1-report.Magnitude(v), 0, 6)), s.Unit)
		}
	}
	return ""
}

// sentence says what one finding found.
func (a *answering) sentence(finding record.Finding, context string) string {
	who, many := report.Subject(finding)
	adds := "adds"
	if many {
		adds = "add"
	}
	s := report.ScaleOf(finding)
	where := " " + a.beside(finding) + context
	switch finding.Verdict {
	case record.VerdictInvalid:
		return fmt.Sprintf("What %s %s %s%s is unknown: %s.", report.LowerFirst(who), adds, a.words(finding.Name), context, report.WhyInvalid(finding))
	case record.VerdictNoEffect:
		_, span := s.Parts(finding.Estimate, finding.Low, finding.High)
		return fmt.Sprintf("%s %s no overhead%s beyond %s (95%% interval %s).", who, adds, where, s.Value(finding.Margin), span)
	case record.VerdictInconclusive:
		if finding.Reason != record.ReasonIncludesZero && finding.Reason != "" {
			e, span := s.Parts(finding.Estimate, finding.Low, finding.High)
			return fmt.Sprintf("What %s %s%s is inconclusive: %s (95%% interval %s)%s", report.LowerFirst(who), adds, where, report.Join(e, s.Unit), span, objection(finding.Warnings[0]))
		}
		_, span := s.Parts(finding.Estimate, finding.Low, finding.High)
		return fmt.Sprintf("%s %s between %s%s: too wide to call.", who, adds, strings.Replace(strings.Replace(span, "–", " and ", 1), " to ", " and ", 1)+" "+s.Unit, where) + missed(finding, s)
	}
	if finding.High < 0 {
		takes := "takes"
		if many {
			takes = "take"
		}
		e, span := s.Parts(-finding.Estimate, -finding.High, -finding.Low)
		return fmt.Sprintf("%s %s %s (95%% interval %s) off%s.", who, takes, report.Join(e, s.Unit), span, strings.TrimPrefix(where, " to"))
	}
	e, span := s.Parts(finding.Estimate, finding.Low, finding.High)
	return fmt.Sprintf("%s %s %s (95%% interval %s)%s.", who, adds, report.Join(e, s.Unit), span, where)
}

// objection ends a sentence with a warning: as part of it, or as a sentence of its own where
// the warning has a "but" itself.
func objection(warning string) string {
	if strings.Contains(warning, ", but ") {
		return ". " + report.UpperFirst(warning) + "."
	}
	return ", but " + warning + "."
}

// missed says how small an effect the run would have found.
func missed(finding record.Finding, s report.Scale) string {
	if finding.MDE <= 0 {
		return ""
	}
	return fmt.Sprintf(" Minimum detectable effect at 80%% power: %s.", s.Value(finding.MDE))
}

// varied answers a study in which other factors vary beside the compared
// ones.
func (a *answering) varied() []string {
	var sentences, growth []string
	levels := a.levels(a.numeric)
	for _, other := range a.combinations() {
		context := ""
		for _, factor := range a.others {
			context += " " + report.FactorWords(factor, other[factor])
		}
		var ends []record.Finding
		for _, level := range levels {
			cell := a.top.With(other)
			if a.numeric != "" {
				cell[a.numeric] = level
			}
			if finding, ok := a.find(a.name, cell); ok {
				ends = append(ends, finding)
			}
		}
		if len(ends) == 0 {
			continue
		}
		first, last := ends[0], ends[len(ends)-1]
		if len(ends) == 1 || first.Verdict != record.VerdictReal || last.Verdict != record.VerdictReal || first.Estimate <= 0 {
			for _, end := range slices.CompactFunc([]record.Finding{first, last}, func(x, y record.Finding) bool { return x.Cell.Key() == y.Cell.Key() }) {
				at := context
				if a.numeric != "" {
					at += " " + report.FactorWords(a.numeric, end.Cell[a.numeric])
				}
				sentences = append(sentences, a.sentence(end, at))
			}
			continue
		}
		who, many := report.Subject(first)
		adds := "adds"
		if many {
			adds = "add"
		}
		s := report.ScaleFor(first.Unit, math.Max(first.Estimate, last.Estimate))
		sentences = append(sentences, report.UpperFirst(strings.TrimSpace(fmt.Sprintf("%s, %s %s %s %s %s and %s %s.",
			strings.TrimSpace(context), report.LowerFirst(who), adds,
			s.Quantity(first.Estimate, first.Low, first.High), a.beside(first), report.FactorWords(a.numeric, first.Cell[a.numeric]),
			s.Quantity(last.Estimate, last.Low, last.High), report.FactorWords(a.numeric, last.Cell[a.numeric])))))
		growth = append(growth, growthWords(first, last)+context)
	}
	for i := range sentences {
		sentences[i] = strings.TrimPrefix(sentences[i], ", ")
		sentences[i] = report.UpperFirst(sentences[i])
	}
	if len(growth) > 0 && len(growth) == len(a.combinations()) && len(levels) > 1 {
		who, many := report.Subject(record.Finding{Cell: a.top, Against: report.Pick(a.against, a.compared)})
		verb := "adds"
		if many {
			verb = "add"
		}
		end := report.FactorWords(a.numeric, levels[len(levels)-1])
		head := fmt.Sprintf("From %s to %s, what %s %s %s %s.", levels[0],
			strings.TrimPrefix(strings.TrimPrefix(end, "at "), "with "), report.LowerFirst(who), verb, a.words(a.name), report.Sequence(growth))
		sentences = append([]string{head}, sentences...)
	}
	return sentences
}

// words say what a finding measures: "to the median latency".
func (a *answering) words(name string) string { return Kind().MeasureWords(name) }

// beside are these words beside a figure of the finding, whose unit says by itself that it is
// of each request.
func (a *answering) beside(f record.Finding) string {
	if strings.HasSuffix(f.Unit, "/request") {
		return strings.TrimSuffix(a.words(f.Name), " for each request")
	}
	return a.words(f.Name)
}

// growthWords says in words how an overhead changes from one end of a factor
// to the other.
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

// combinations lists the levels of the factors that are neither compared nor
// the numeric one, in the order of the cells.
func (a *answering) combinations() []record.Cell {
	var all []record.Cell
	seen := map[string]bool{}
	for _, cell := range a.f.Cells {
		other := report.Pick(cell.Cell, a.others)
		if key := other.Key(); !seen[key] {
			seen[key] = true
			all = append(all, other)
		}
	}
	return all
}

// levels are a numeric factor's levels in ascending order; one empty level
// if there is no such factor.
func (a *answering) levels(factor string) []string {
	for _, f := range a.f.Factors {
		if f.Factor == factor {
			levels := slices.Clone(f.Levels)
			sort.Slice(levels, func(i, j int) bool { return report.Number(levels[i]) < report.Number(levels[j]) })
			return levels
		}
	}
	return []string{""}
}
