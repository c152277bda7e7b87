package findings

import (
	"math"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
)

// told are findings that a report tells together, so that those that are
// differences share one error rate: a bill's, whatever it prices and at whatever
// levels of the other factors, or a cost breakdown's.
type told struct {
	findings []record.Finding
	family   analysis.Family
	doubts   []func(*record.Finding) // what else may take a verdict back; nil for nothing
}

// add tells of one more difference, as it would be called by itself, and says
// at which place.
func (t *told) add(f record.Finding, d analysis.Difference, doubt func(*record.Finding)) (at int) {
	t.findings, t.family, t.doubts = append(t.findings, f), append(t.family, d), append(t.doubts, doubt)
	return len(t.findings) - 1
}

// judge is all of them with their verdicts, in the order in which they were told.
func (t *told) judge() []record.Finding {
	t.family.Judge(t.findings)
	for i, doubt := range t.doubts {
		if doubt != nil {
			doubt(&t.findings[i])
		}
	}
	return t.findings
}

// doubted weighs an effect on latency, told in its own unit, against the
// generator's lag in the cells that it is a difference of.
func doubted(o *analysis.Observations, m analysis.Measure, cells ...int) func(*record.Finding) {
	return func(f *record.Finding) { o.DoubtLag(f, m, f.Estimate, cells...) }
}

// withoutFigure is a finding that its estimate leaves without one: for want of blocks,
// or, of a percentile, of requests beyond it, or because it lies among failed ones.
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

// widened is an estimate whose interval reaches as far as another's of the same
// figure, either way.
func widened(e, by stat.Estimate) stat.Estimate {
	e.Low, e.High = min(e.Low, e.Value-(by.Value-by.Low)), max(e.High, e.Value+(by.High-by.Value))
	return e
}
