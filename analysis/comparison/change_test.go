package comparison

import (
	"testing"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
)

// Two runs whose blocks all have the same value do not differ measurably if they are one step
// apart.
func TestStepApart(t *testing.T) {
	side := func(v, step float64) sideFigure {
		f := record.Finding{Name: "apiserver_cpu", Estimate: v, Low: v, High: v, Blocks: 2, Verdict: record.VerdictMeasured}
		return sideFigure{finding: f, values: []float64{v, v}, runs: 1, all: []*analysis.RunFigure{{Finding: f, Step: step}}}
	}
	for _, c := range []struct {
		b, step float64
		want    string
	}{
		{2e4, 1e4, record.VerdictInconclusive},
		{2e4, 0, record.VerdictWorse}, // counts
		{2e4, 10, record.VerdictWorse},
	} {
		for _, p := range []pairing{{blocks: true}, {blocks: true, typical: true}, {}} {
			p.a, p.b = side(1e4, c.step), side(c.b, c.step)
			if _, got, why := p.weigh(stat.Options{}, 0.05); got != c.want {
				t.Errorf("from 10,000 to %g in steps of %g, of blocks %v, typical %v: %s (%s), want %s", c.b, c.step, p.blocks, p.typical, got, why, c.want)
			}
		}
	}
}

// From a value that may be zero to a non-zero one is worse if less is better, and better if
// more is.
func TestFromNothing(t *testing.T) {
	for _, c := range []struct {
		name      string
		upward    bool
		low, high float64 // of the difference
		b         string  // B's own verdict
		want      string
	}{
		{"more errors", false, 3, 5, record.VerdictReal, record.VerdictWorse},
		{"more throughput", true, 3, 5, record.VerdictReal, record.VerdictBetter},
		{"throughput, perhaps", true, -1, 5, record.VerdictReal, record.VerdictInconclusive},
		{"still nothing", true, 3, 5, record.VerdictInconclusive, record.VerdictInconclusive},
	} {
		for _, blocks := range []bool{true, false} {
			p := pairing{upward: c.upward, blocks: blocks}
			p.b.finding = record.Finding{Verdict: c.b, Low: map[bool]float64{true: 2}[c.b == record.VerdictReal]}
			if got, _ := p.withoutRatio(stat.Estimate{Value: (c.low + c.high) / 2, Low: c.low, High: c.high}); got != c.want {
				t.Errorf("%s, of blocks %v: %s, want %s", c.name, blocks, got, c.want)
			}
		}
	}
}
