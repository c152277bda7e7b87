package sections

import (
	"fmt"
	"math"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
)

// span formats a figure of a bill with its interval.
func span(p record.Priced) string {
	if p.Unit == finding.UnitPerRequest { // microseconds throughout, for comparison
		return fmt.Sprintf("%s µs per request (%s to %s)", words.Figures(p.Estimate), words.Figures(p.Low), words.Figures(p.High))
	}
	at, low, high := words.Quantity(p.Estimate, p.Unit), words.Quantity(p.Low, p.Unit), words.Quantity(p.High, p.Unit)
	_, unit, _ := strings.Cut(at, " ")
	short := func(s string) string {
		if number, other, _ := strings.Cut(s, " "); other == unit {
			return number
		}
		return s
	}
	return fmt.Sprintf("%s (%s to %s)", at, short(low), short(high))
}

// withinZero reports whether an interval contains zero.
func withinZero(p record.Priced) bool { return p.Low <= 0 && p.High >= 0 }

// whyNot explains why a figure whose interval excludes zero is not called real.
func whyNot(p record.Priced) string {
	switch p.Reason {
	case record.ReasonWithinFloor, record.ReasonWithinMargin:
		return "within the noise floor"
	case record.ReasonMany:
		return "of so many differences some exclude zero by chance"
	case record.ReasonLateLoad:
		return "the generator's own lag is large beside it"
	}
	return "the noise floor is unknown"
}

// partWords states what a part costs, or what removing it saves.
func partWords(p record.BillPart, removed bool) string {
	cpu := p.Figures[dataplane.BillCPU]
	switch {
	case cpu.Verdict == record.VerdictInvalid:
		return fmt.Sprintf("%s: not measured, too few valid trials.", p.Name)
	case withinZero(cpu):
		return fmt.Sprintf("%s is indistinguishable from zero: %s of CPU.", p.Name, span(cpu))
	case cpu.Verdict != record.VerdictReal:
		return fmt.Sprintf("%s is not significant, %s of CPU: %s.", p.Name, span(cpu), whyNot(cpu))
	}
	share := p.Figures[dataplane.BillShare]
	rest := []string{fmt.Sprintf("%s of what the proxies use", words.Percent(math.Abs(share.Estimate)))}
	for _, name := range []string{dataplane.BillP50, dataplane.BillP99} {
		if l, ok := p.Figures[name]; ok && l.Verdict == record.VerdictReal {
			rest = append(rest, fmt.Sprintf("%s %s", strings.TrimPrefix(name, "latency_"), span(l)))
		}
	}
	if m, ok := p.Figures[dataplane.BillMoney]; ok && m.Verdict == record.VerdictReal {
		rest = append(rest, span(m))
	}
	switch {
	case removed && cpu.Estimate > 0:
		return fmt.Sprintf("Remove %s, save %s of CPU: %s.", p.Name, span(cpu), words.List(rest))
	case removed:
		return fmt.Sprintf("Without %s the proxies use more, not less: %s of CPU is saved.", p.Name, span(cpu))
	case cpu.Estimate < 0:
		return fmt.Sprintf("%s makes the proxies use less: it costs %s of CPU.", p.Name, span(cpu))
	}
	return fmt.Sprintf("%s costs %s of CPU: %s.", p.Name, span(cpu), words.List(rest))
}

// sumWords states whether the parts add up.
func sumWords(s *record.BillSum) string {
	i := s.Interaction
	switch {
	case s.Together.Verdict == record.VerdictInvalid:
		return "The total was not measured: too few valid trials."
	case i.Verdict == record.VerdictInvalid:
		return fmt.Sprintf("Together they cost %s of CPU; not all parts were measured alone.", span(s.Together))
	}
	said := fmt.Sprintf("Together they cost %s of CPU; individually they add up to %s: ", span(s.Together), span(s.Sum))
	switch {
	case withinZero(i):
		return said + fmt.Sprintf("the difference of %s is indistinguishable from zero, so there is no sign of interaction.", span(i))
	case i.Verdict != record.VerdictReal:
		return said + fmt.Sprintf("the difference of %s is not significant: %s.", span(i), whyNot(i))
	case i.Estimate > 0:
		return said + fmt.Sprintf("they interact, and together cost %s more than the sum.", span(i))
	}
	i.Estimate, i.Low, i.High = -i.Estimate, -i.High, -i.Low
	return said + fmt.Sprintf("they interact, and together cost %s less than the sum.", span(i))
}
