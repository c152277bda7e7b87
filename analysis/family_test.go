package analysis

import (
	"reflect"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
)

// Differences that are real individually are revoked if there are so many that
// some are due to chance; if several are real, each needs less evidence.
func TestFamilyJudges(t *testing.T) {
	say := func(float64) string { return "x" }
	// With nine blocks t is 2.306 at 95%, and the p-value of 2.5 is 0.037.
	of := func(ts ...float64) (Family, []record.Finding) {
		var all Family
		var findings []record.Finding
		for _, x := range ts {
			d := Difference{Estimate: stat.Estimate{Value: x, Low: x - 2.306, High: x + 2.306, SE: 1, DF: 8, Level: 0.95, Blocks: 9}, Say: say}
			all, findings = append(all, d), append(findings, d.Put(record.Finding{}, 1))
		}
		return all, findings
	}
	verdicts := func(findings []record.Finding) string {
		var out []string
		for _, f := range findings {
			out = append(out, f.Verdict)
		}
		return strings.Join(out, " ")
	}
	for _, tt := range []struct {
		ts   []float64
		want string
	}{
		{[]float64{2.5}, "real"},
		{[]float64{2.5, 0.1}, "inconclusive inconclusive"},
		{[]float64{2.5, -2.6}, "real real"},
		{[]float64{20, 2.5, 0.1}, "real inconclusive inconclusive"},
		{[]float64{20, 2.5, 19, 18, 0}, "real real real real inconclusive"},
	} {
		all, findings := of(tt.ts...)
		all.Judge(findings)
		if got := verdicts(findings); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.ts, got, tt.want)
		}
	}
	all, findings := of(2.5, 0.1)
	all.Judge(findings)
	alone, single := of(2.5)
	alone.Judge(single)
	if f := findings[0]; f.Reason != record.ReasonMany || !reflect.DeepEqual(f.Warnings[0], noteMany.Of(2)) || f.Low <= 0 || !(f.MDE > single[0].MDE) {
		t.Errorf("%+v, alone %+v", f, single[0])
	}
	all, findings = of(2.5, 0.1)
	findings[0].Margin = 5
	if all.Judge(findings); findings[0].Verdict != record.VerdictNoEffect || findings[0].Reason != record.ReasonMany {
		t.Errorf("within the margin: %+v", findings[0])
	}
	all, findings = of(2.5, 0.1)
	findings[1] = Invalid(record.Finding{}, 1)
	if all.Judge(findings); verdicts(findings) != "real invalid" || findings[1].MDE != 0 {
		t.Errorf("one that is not known: %s", verdicts(findings))
	}
	all, findings = of(20, 19)
	all[0].OnePods, all[0].Floor = true, stat.NoiseFloor([]stat.Pair{{Base: 1, Test: 2}}, stat.Options{})
	if all.Judge(findings); findings[0].Verdict != record.VerdictReal {
		t.Errorf("23 times what one pair of deployments differs by: %+v", findings[0])
	}
	all, findings = of(8, 19)
	all[0].OnePods, all[0].Floor = true, stat.NoiseFloor([]stat.Pair{{Base: 1, Test: 2}}, stat.Options{})
	if all.Judge(findings); findings[0].Verdict == record.VerdictReal {
		t.Errorf("nine times what one pair of deployments differs by: %+v", findings[0])
	}
}
