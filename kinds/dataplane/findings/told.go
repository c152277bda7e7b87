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
	findings []record.Finding
	family   analysis.Family
	doubts   []func(*record.Finding) // what else may withdraw a verdict; nil for nothing
}

// add adds a difference, as it would be judged alone, and returns its index.
func (t *told) add(f record.Finding, d analysis.Difference, doubt func(*record.Finding)) (at int) {
	t.findings, t.family, t.doubts = append(t.findings, f), append(t.family, d), append(t.doubts, doubt)
	return len(t.findings) - 1
}

// judge returns all findings with their verdicts, in the order in which they were added.
func (t *told) judge() []record.Finding {
	t.family.Judge(t.findings)
	for i, doubt := range t.doubts {
		if doubt != nil {
			doubt(&t.findings[i])
		}
	}
	return t.findings
}

// doubted weighs an effect on latency, in its own unit, against the generator's lag in the cells of
// the difference.
func doubted(o *analysis.Observations, m analysis.Measure, cells ...int) func(*record.Finding) {
	return func(f *record.Finding) { o.DoubtLag(f, m, f.Estimate, cells...) }
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
