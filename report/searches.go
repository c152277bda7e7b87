package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
)

// maxSearchAnswers is the maximum number of searches that get a sentence each;
// the tables have all.
const maxSearchAnswers = 6

// SearchAnswers says how far searched factors can go.
func SearchAnswers(f record.Findings) []string {
	var out []string
	for _, x := range f.Findings {
		if len(out) == maxSearchAnswers {
			break
		}
		factor, ok := strings.CutPrefix(x.Name, "highest_")
		if !ok || x.Verdict == record.VerdictInvalid {
			continue
		}
		var context []string
		for _, other := range slices.Sorted(maps.Keys(x.Cell)) {
			context = append(context, FactorWords(other, x.Cell[other]))
		}
		where := ""
		if len(context) > 0 {
			where = " " + strings.Join(context, ", ")
		}
		unit := cmp.Or(x.Unit, FactorName(factor))
		if base, per := SplitUnit(unit); per == "s" {
			unit = base + " per second"
		}
		low, high := Amount(x.Low), Amount(x.High)
		switch {
		case x.Reason == record.ReasonOneBlock:
			out = append(out, UpperFirst(oneBlock(unit, where, low, high, x)))
		case x.Reason == record.ReasonNotSure && x.High == 0:
			out = append(out, UpperFirst(fmt.Sprintf("how many %s meet the bound%s is unknown: trials vary too much for so few blocks.", unit, where)))
		case x.Reason == record.ReasonNotSure && x.Verdict == record.VerdictMeasured && x.Low == x.High:
			out = append(out, UpperFirst(fmt.Sprintf("%s %s meet the bound%s; with so few blocks, how many more do is unknown.", low, unit, where)))
		case x.Reason == record.ReasonNotSure && x.Verdict == record.VerdictMeasured && x.Low == 0:
			out = append(out, UpperFirst(fmt.Sprintf("%s %s are too many%s; with so few blocks, how many are not is unknown.", high, unit, where)))
		case x.Verdict == record.VerdictInconclusive && x.Low == 0:
			out = append(out, UpperFirst(fmt.Sprintf("how many %s meet the bound%s is unknown: the machine or the generator saturates first.", unit, where)))
		case x.Verdict == record.VerdictInconclusive:
			out = append(out, UpperFirst(fmt.Sprintf("%s %s meet the bound%s; the limit beyond is unknown, since the machine or the generator saturates first.", low, unit, where)))
		case x.Low == 0 && x.High > 0:
			out = append(out, UpperFirst(fmt.Sprintf("even %s %s are too many%s.", high, unit, where)))
		case x.High > x.Low:
			out = append(out, UpperFirst(fmt.Sprintf("%s %s meet the bound%s, %s do not.", low, unit, where, high)))
		default:
			out = append(out, UpperFirst(fmt.Sprintf("every level tried meets the bound%s, up to %s %s.", where, low, unit)))
		}
	}
	return out
}

// oneBlock describes what a search of one block observed, which is not an
// interval.
func oneBlock(unit, where, low, high string, x record.Finding) string {
	switch {
	case x.Low == 0:
		return fmt.Sprintf("%s %s broke the bound%s in the only block: one trial a level is no interval.", high, unit, where)
	case x.High > x.Low:
		return fmt.Sprintf("%s %s met the bound%s and %s did not, in the only block: one trial a level is no interval.", low, unit, where, high)
	}
	return fmt.Sprintf("every level tried met the bound%s, up to %s %s, in the only block: one trial a level is no interval.", where, low, unit)
}

// Amount formats a level of a factor.
func Amount(v float64) string {
	if v == math.Trunc(v) {
		return Fixed(v, 0)
	}
	return Fixed(v, Clamp(1-Magnitude(v), 0, 6))
}
