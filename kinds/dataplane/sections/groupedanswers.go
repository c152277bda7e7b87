package sections

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

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
