package findings

import (
	"math"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
)

// told collects findings that a report presents together, so that the differences among them share
// one error rate: those of a bill, for all measures and all levels of the other factors, or those
// of a cost breakdown.
type told struct {
	o        *analysis.Observations
	findings []record.Finding
	family   analysis.Family
	late     []lateness
}

// lateness says in which cells the generator's lag counts against an effect on latency, which is a
// figure times level.
type lateness struct {
	m     analysis.Measure
	level float64
	cells []int
}

// add adds a difference, as it would be judged alone, and returns its index. Its figure is a share
// of level, or 1.
func (t *told) add(f record.Finding, d analysis.Difference, m analysis.Measure, level float64, cells ...int) (at int) {
	t.findings, t.family, t.late = append(t.findings, f), append(t.family, d), append(t.late, lateness{m, level, cells})
	return len(t.findings) - 1
}

// judge returns all findings with their verdicts, in the order in which they were added.
func (t *told) judge() []record.Finding {
	t.family.Judge(t.findings)
	for i, late := range t.late {
		f := &t.findings[i]
		t.o.DoubtLag(f, late.m, f.Estimate*late.level, late.cells...)
	}
	return t.findings
}

// withoutFigure marks a finding that has no figure: for lack of blocks or, for a percentile, of
// requests beyond it, or because it falls among failed ones.
func withoutFigure(f record.Finding, e stat.Estimate) record.Finding {
	switch {
	case e.Blocks < analysis.MinBlocks || len(e.Warnings) == 0 && math.IsNaN(e.Value):
		return analysis.Invalid(f, e.Blocks)
	case math.IsNaN(e.Value):
		f.Because(record.ReasonTooFew, e.Warnings[0])
	default:
		f.Because(record.ReasonNotReached, noteAmongFailed.Of())
	}
	f.Verdict = record.VerdictInvalid
	return f
}

// widened extends an estimate's interval to at least the half-widths of another interval of the
// same figure.
func widened(e, by stat.Estimate) stat.Estimate {
	e.Low, e.High = min(e.Low, e.Value-(by.Value-by.Low)), max(e.High, e.Value+(by.High-by.Value))
	return e
}
