package record

import (
	"fmt"
	"testing"
)

func TestResidualRuleSaysItsConstants(t *testing.T) {
	want := fmt.Sprintf("%g%% of their time or %g ms", 100*ResidualRatio, LeastResidualUS/1e3)
	if got := ResidualRule("their time"); got != want {
		t.Errorf("the rule reads %q, its constants %q", got, want)
	}
}

func TestMaxResidualUS(t *testing.T) {
	for _, c := range []struct{ took, most float64 }{{0, 2000}, {40_000, 2000}, {40_001, 2000.05}, {1e6, 50_000}} {
		if got := MaxResidualUS(c.took); got < c.most-1e-6 || got > c.most+1e-6 {
			t.Errorf("of %v us, %v may be unexplained, want %v", c.took, got, c.most)
		}
	}
}
