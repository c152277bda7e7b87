package comparison

import (
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
)

// From what may be nothing to something is worse where less is better, and better where
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
