package sections

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/stat"
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
	p50 := func(c record.CellSummary) float64 { return c.Intended.At(0.5) }
	cells := slices.DeleteFunc(slices.Clone(f.Cells), func(c record.CellSummary) bool { return c.Valid == 0 || p50(c) == 0 })
	if len(cells) == 0 {
		return nil
	}
	by := func(a, b record.CellSummary) int { return cmp.Compare(p50(a), p50(b)) }
	low, high := slices.MinFunc(cells, by), slices.MaxFunc(cells, by)
	s := report.ScaleFor("us", p50(high))
	p99 := high.Intended.At(0.99)
	switch {
	case len(cells) > 1:
		return []string{fmt.Sprintf("The median latency lies between %s (%s) and %s (%s).",
			s.Value(p50(low)), low.Label, s.Value(p50(high)), high.Label)}
	case p99 > 0:
		return []string{fmt.Sprintf("The median latency is %s, and 1 in 100 requests takes over %s.", s.Value(p50(high)), s.Value(p99))}
	}
	return []string{fmt.Sprintf("The median latency is %s.", s.Value(p50(high)))}
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

// verb returns a verb in the form for one subject or several.
func verb(stem string, many bool) string {
	if many {
		return stem
	}
	return stem + "s"
}

// sentence states one finding. context, such as the place or amount, follows what was measured.
func (a *answering) sentence(x record.Finding, context string) string {
	who, many := report.Subject(x)
	adds, what := verb("add", many), Kind().Phrase(x.Name)+context
	s := report.ScaleOf(x).Bare() // the measure's name has the rest of the unit
	e, span := s.Parts(x.Estimate, x.Low, x.High)
	figure := fmt.Sprintf("%s (95%% interval %s)", report.Join(e, s.Unit), span)
	switch {
	case x.Verdict == record.VerdictInvalid:
		return fmt.Sprintf("What %s %s to %s is unknown: %s.", who, adds, what, report.WhyInvalid(x))
	case x.Verdict == record.VerdictNoEffect:
		return report.UpperFirst(fmt.Sprintf("%s %s no overhead to %s beyond %s (95%% interval %s).", who, adds, what,
			s.Value(x.Margin), span))
	case x.Verdict == record.VerdictInconclusive && slices.Contains([]string{"", record.ReasonIncludesZero, record.ReasonNoInterval, record.ReasonFloorUnknown}, x.Reason):
		from, to := s.Ends(x.Estimate, x.Low, x.High)
		return report.UpperFirst(fmt.Sprintf("%s %s between %s and %s to %s: too wide to call.%s", who, adds, from,
			report.Join(to, s.Unit), what, missed(x, s)))
	case x.Verdict == record.VerdictInconclusive:
		return fmt.Sprintf("What %s %s to %s is inconclusive: %s. %s.", who, adds, what, figure,
			report.UpperFirst(x.Warnings[0].String()))
	case x.High < 0:
		e, span := s.Parts(-x.Estimate, -x.High, -x.Low)
		return report.UpperFirst(fmt.Sprintf("%s %s %s (95%% interval %s) off %s.", who, verb("take", many), report.Join(e, s.Unit), span, what))
	}
	return report.UpperFirst(fmt.Sprintf("%s %s %s to %s.", who, adds, figure, what))
}

// missed states the smallest effect that the run would have found.
func missed(x record.Finding, s report.Scale) string {
	if x.MDE <= 0 {
		return ""
	}
	return fmt.Sprintf(" Minimum detectable effect at 80%% power: %s.", s.Value(x.MDE))
}

// varied answers a study in which other factors vary in addition to the compared ones. Of several
// compared levels the last has the headline, if there is one; the others share sentences.
func (a *answering) varied() []string {
	var sentences, growth []string
	levels := []string{""}
	if a.Numeric != nil {
		levels = slices.SortedFunc(slices.Values(a.Numeric.Levels), func(x, y string) int { return cmp.Compare(report.Number(x), report.Number(y)) })
	}
	combinations := a.combinations()
	for _, other := range combinations {
		var context []string
		for _, factor := range a.others {
			context = append(context, report.FactorWords(factor, other[factor]))
		}
		at := func(level string) record.Cell {
			if a.Numeric == nil {
				return other
			}
			return other.With(record.Cell{a.Numeric.Factor: level})
		}
		var ends []record.Finding
		for _, level := range levels {
			if x, ok := a.find(a.name, a.top.With(at(level))); ok {
				ends = append(ends, x)
			}
		}
		switch {
		case a.Numeric == nil && len(a.tops) > 1 || len(ends) == 0:
		case len(ends) == 1:
			sentences = append(sentences, a.sentence(ends[0], a.at(context, ends[0])))
		default:
			first, last := ends[0], ends[len(ends)-1]
			if first.Verdict == record.VerdictReal && last.Verdict == record.VerdictReal && first.Estimate > 0 {
				sentences = append(sentences, a.both(context, first, last))
				growth = append(growth, strings.Join(append([]string{growthWords(first, last)}, context...), " "))
			} else {
				sentences = append(sentences, a.sentence(first, a.at(context, first)), a.sentence(last, a.at(context, last)))
			}
		}
		if len(a.tops) > 1 {
			sentences = append(sentences, a.each(context, at(levels[len(levels)-1]))...)
		}
	}
	if len(growth) > 0 && len(growth) == len(combinations) && len(levels) > 1 {
		who, many := report.Subject(record.Finding{Cell: a.top, Against: report.Pick(a.against, a.Compared)})
		head := fmt.Sprintf("From %s to %s, what %s %s to %s %s.", levels[0], report.LevelLabel(*a.Numeric, levels[len(levels)-1]),
			who, verb("add", many), Kind().Phrase(a.name), words.List(growth))
		sentences = append([]string{head}, sentences...)
	}
	return sentences
}

// each names in one sentence what every compared level, except one in the headline, adds in cells
// with these other levels.
func (a *answering) each(context []string, other record.Cell) []string {
	var cells []record.CellSummary
	for _, top := range a.tops {
		cells = append(cells, record.CellSummary{Cell: top.With(other)})
	}
	var found []record.Finding
	var ends []float64
	for i, top := range a.tops {
		if x, ok := a.find(a.name, cells[i].Cell); ok && (a.Numeric == nil || top.Key() != a.top.Key()) {
			found, ends = append(found, x), append(ends, x.Low, x.High)
		}
	}
	switch len(found) {
	case 0:
		return nil
	case 1:
		return []string{a.sentence(found[0], a.at(context, found[0]))}
	}
	s := report.ScaleFor(found[0].Unit, ends...).Bare()
	said := make([]string, len(found))
	for i, x := range found {
		said[i] = a.Label(x.Cell, cells) + " "
		switch x.Verdict {
		case record.VerdictReal:
			said[i] += s.Quantity(x.Estimate, x.Low, x.High)
		case record.VerdictNoEffect:
			said[i] += "nothing"
		case record.VerdictInvalid:
			said[i] += "unknown"
		default:
			said[i] += "inconclusive"
		}
	}
	return []string{fmt.Sprintf("Added to %s%s, with 95%% intervals: %s.", Kind().Phrase(a.name), a.at(context, found[0]), strings.Join(said, ", "))}
}

func (a *answering) at(context []string, x record.Finding) string {
	if a.Numeric != nil {
		context = append(slices.Clone(context), report.FactorWords(a.Numeric.Factor, x.Cell[a.Numeric.Factor]))
	}
	if len(context) == 0 {
		return ""
	}
	return " " + strings.Join(context, " ")
}

// both states what is added at both ends of the numeric factor.
func (a *answering) both(context []string, first, last record.Finding) string {
	who, many := report.Subject(first)
	s := report.ScaleFor(first.Unit, first.Estimate, last.Estimate).Bare()
	end := func(x record.Finding) (figure, where string) {
		return s.Quantity(x.Estimate, x.Low, x.High), report.FactorWords(a.Numeric.Factor, x.Cell[a.Numeric.Factor])
	}
	low, atLow := end(first)
	high, atHigh := end(last)
	out := fmt.Sprintf("%s %s %s to %s %s and %s %s.", who, verb("add", many), low, Kind().Phrase(a.name), atLow, high, atHigh)
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

// fitAnswers splits each proxy's CPU, if the study varies the rate, into the cost per additional
// request and the intercept. It returns nothing if other factors vary as well, and omits proxies
// whose points lie off the line.
func fitAnswers(f record.Findings, top record.Cell) []string {
	var answers []string
	for _, part := range record.ProxyParts() {
		slope, okSlope := onlyFinding(f, "cpu_"+part+"_slope", top)
		idle, okIdle := onlyFinding(f, "cpu_"+part+"_idle", top)
		if !okSlope || !okIdle || stat.PoorFit.In(slope.Warnings) {
			continue
		}
		s := report.Scale{Div: 1, Unit: "µs"}
		answers = append(answers, fmt.Sprintf("Each request costs the %s %s of CPU, on top of %s, by the line along the measured rates.", report.PartWords(part),
			s.Quantity(slope.Estimate, slope.Low, slope.High), report.Scale{Div: 1, Unit: "mCPU"}.Quantity(idle.Estimate, idle.Low, idle.High)))
	}
	return answers
}

// onlyFinding returns the one measured finding of a name in the cells with top's levels, and false
// if there is none or several.
func onlyFinding(f record.Findings, name string, top record.Cell) (found record.Finding, ok bool) {
	for _, x := range f.Findings {
		if x.Name != name || x.Verdict != record.VerdictMeasured || report.Pick(x.Cell, slices.Sorted(maps.Keys(top))).Key() != top.Key() {
			continue
		}
		if ok {
			return found, false
		}
		found, ok = x, true
	}
	return found, ok
}

// cpuAnswers states the CPU cost of a request in each proxy, over the cells that have top's levels
// (all cells if top is nil).
func cpuAnswers(f record.Findings, top record.Cell) []string {
	var answers []string
	for _, part := range record.ProxyParts() {
		low, high, n := math.Inf(1), math.Inf(-1), 0
		var only record.CPUPerRequest
		for _, cell := range f.Cells {
			cpu, ok := cell.CPUPerRequest[part]
			if !ok || cpu.UserUS+cpu.SystemUS == 0 || report.Pick(cell.Cell, slices.Sorted(maps.Keys(top))).Key() != top.Key() {
				continue
			}
			only, n = cpu, n+1
			low, high = math.Min(low, cpu.UserUS+cpu.SystemUS), math.Max(high, cpu.UserUS+cpu.SystemUS)
		}
		s := report.ScaleFor("us", high)
		switch {
		case n == 1:
			sum := only.UserUS + only.SystemUS
			cost := s.Value(sum)
			if only.HighUS > only.LowUS {
				cost = s.Quantity(sum, only.LowUS, only.HighUS)
			}
			kernel := fmt.Sprintf(", %s of it in the kernel", report.Percent(only.SystemUS/sum))
			if only.Whole {
				kernel = ""
			}
			answers = append(answers, fmt.Sprintf("A request costs the %s %s of CPU%s.", report.PartWords(part), cost, kernel))
		case n > 1:
			answers = append(answers, fmt.Sprintf("A request costs the %s between %s and %s of CPU.", report.PartWords(part), s.Plain(low), s.Value(high)))
		}
	}
	return answers
}

// maxSentences is the maximum number of cells with a sentence each.
const maxSentences = 4

// grouped answers a study of many cells: real effects get a sentence each, or one for all if they
// are many, and the rest share sentences.
func (a *answering) grouped() []string {
	var answers []string
	var more []record.Finding     // real, and adds cost
	rest := map[string][]string{} // labels by verdict
	margin := 0.0                 // the widest of the findings without effect
	var s report.Scale
	for _, top := range slices.Backward(a.tops) {
		p50, ok := a.find(a.name, top)
		switch {
		case !ok:
		case p50.Verdict == record.VerdictReal && p50.Low > 0:
			more = append(more, p50)
		case p50.Verdict == record.VerdictReal:
			answers = append(answers, a.sentence(p50, a.from(p50)))
		default:
			rest[p50.Verdict] = append(rest[p50.Verdict], a.label(p50.Cell))
			if p50.Verdict == record.VerdictNoEffect && p50.Margin > margin {
				margin, s = p50.Margin, report.ScaleFor(p50.Unit, p50.Margin).Bare()
			}
		}
	}
	answers = append(a.costly(more), answers...)
	what := Kind().MeasureWords(a.name)
	adding := func(labels []string) string {
		if len(labels) == 1 {
			return labels[0] + " adds"
		}
		return words.List(labels) + " add"
	}
	if labels := rest[record.VerdictNoEffect]; len(labels) > 0 && margin == 0 {
		answers = append(answers, fmt.Sprintf("%s no overhead %s.", adding(labels), what))
	} else if len(labels) > 0 {
		answers = append(answers, fmt.Sprintf("%s no overhead %s beyond %s.", adding(labels), what, s.Value(margin)))
	}
	if labels := rest[record.VerdictInconclusive]; len(labels) > 0 {
		answers = append(answers, fmt.Sprintf("What %s %s is inconclusive.", adding(labels), what))
	}
	if labels := rest[record.VerdictInvalid]; len(labels) > 0 {
		answers = append(answers, fmt.Sprintf("What %s %s is unknown: too few valid trials or requests.",
			adding(labels), what))
	}
	return answers
}

// costly describes cells that add something: from the one that adds least to the one that adds
// most, if they are many with one baseline.
func (a *answering) costly(all []record.Finding) []string {
	var answers []string
	differs := func(f record.Finding) bool { return f.Against.Key() != all[0].Against.Key() || f.Unit != all[0].Unit }
	if len(all) <= maxSentences || slices.ContainsFunc(all, differs) {
		for _, f := range all {
			answers = append(answers, a.sentence(f, a.from(f)))
		}
		return answers
	}
	least := slices.MinFunc(all, func(x, y record.Finding) int { return cmp.Compare(x.Estimate, y.Estimate) })
	most := slices.MaxFunc(all, func(x, y record.Finding) int { return cmp.Compare(x.Estimate, y.Estimate) })
	s := report.ScaleFor(most.Unit, most.Estimate).Bare()
	end := func(f record.Finding) string {
		e, span := s.Parts(f.Estimate, f.Low, f.High)
		return fmt.Sprintf("%s (%s, %s)", report.Join(e, s.Unit), a.label(f.Cell), span)
	}
	return []string{fmt.Sprintf("%d of %d cells add overhead %s%s, from %s to %s, with 95%% intervals.",
		len(all), len(a.tops), Kind().MeasureWords(most.Name), a.from(most), end(least), end(most))}
}
