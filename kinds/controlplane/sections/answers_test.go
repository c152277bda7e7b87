package sections

import (
	"math"
	"testing"

	"github.com/meshtrial/meshtrial/record"
)

// A sentence about a lever says what its verdict is of: the difference inside blocks.
// All valid trials by themselves, those of blocks that lack the other too, may even
// differ the other way.
func TestLeverPart(t *testing.T) {
	lever, base := record.Cell{"variant": "lever"}, record.Cell{"variant": "none"}
	plain := map[string]record.Finding{
		"convergence_p50\x00" + lever.Key(): {Estimate: 1.27e6, Verdict: record.VerdictMeasured},
		"convergence_p50\x00" + base.Key():  {Estimate: 1e6, Verdict: record.VerdictMeasured},
	}
	for _, c := range []struct {
		verdict  string
		estimate float64
		want     string
		moved    bool
		left     float64
	}{
		{record.VerdictReal, -0.25e6, "cuts the median time from 1,000 to 750 ms", true, 0.75},
		{record.VerdictReal, 0.25e6, "raises the median time from 1,000 to 1,250 ms", true, 1.25},
		{record.VerdictNoEffect, 0.01e6, "leaves the median time at 1,000 ms", false, 1},
		{record.VerdictInconclusive, -0.25e6, "", false, 1},
		{record.VerdictReal, -1.1e6, "", false, 1}, // of which nothing is left: other blocks
	} {
		x := record.Finding{Name: "convergence_p50_overhead", Unit: "us", Cell: lever, Against: base, Estimate: c.estimate, Verdict: c.verdict}
		if got := leverPart(plain, "convergence_p50", x, "the median time"); got.text != c.want || got.moved != c.moved || math.Abs(got.left-c.left) > 1e-9 {
			t.Errorf("%+v: got %+v", c, got)
		}
	}
}
