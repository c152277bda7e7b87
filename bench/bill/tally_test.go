package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

func price(at, half float64) record.Priced {
	return record.Priced{Estimate: at, Low: at - half, High: at + half, Verdict: record.VerdictReal}
}

func TestWhy(t *testing.T) {
	good := func() line {
		return line{PlantedUS: 100, RankLow: 1, RankHigh: 1, Trials: 36, Valid: 36,
			Prices: map[string]record.Priced{partPlanted: price(104, 3), partNothing: price(0.2, 0.6), partCall: price(3, 1)}}
	}
	for _, c := range []struct {
		name, want string
		spoil      func(*line)
	}{
		{"as it must be", "", func(*line) {}},
		{"shared place", "places 1 to 2", func(l *line) { l.RankHigh = 2 }},
		{"too dear", "11.0% off", func(l *line) { l.Prices[partPlanted] = price(111, 3) }},
		{"too cheap", "-12.0% off", func(l *line) { l.Prices[partPlanted] = price(88, 3) }},
		{"nothing has a price", "priced 1.00 (0.50 to 1.50)", func(l *line) { l.Prices[partNothing] = price(1, 0.5) }},
		{"nothing differs, as identical cells do", "", func(l *line) {
			p := price(1, 0.5)
			p.Verdict = record.VerdictInconclusive
			l.Prices[partNothing] = p
		}},
		{"no valid trial", "lack of valid trials", func(l *line) { l.Prices[partNothing] = record.Priced{Verdict: record.VerdictInvalid} }},
		{"not measured", "lack of valid trials", func(l *line) { delete(l.Prices, partPlanted) }},
	} {
		l := good()
		c.spoil(&l)
		if got := l.why(); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		err := judge([]line{good(), l})
		if errors.Is(err, errMissed) != (c.want != "") {
			t.Errorf("%s: judged %v", c.name, err)
		}
		var out strings.Builder
		if err := printText(&out, []line{good(), l}); err != nil || !strings.Contains(out.String(), c.want) || !strings.Contains(out.String(), "of 2 rounds") {
			t.Errorf("%s: %v\n%s", c.name, err, out.String())
		}
	}
	if judge(nil) == nil {
		t.Error("no round passes")
	}
}

func TestLineOf(t *testing.T) {
	f := record.Findings{Meshtrial: "1", Validity: record.ValiditySummary{Trials: 36, Valid: 35}, Bills: []record.Bill{{Parts: []record.BillPart{
		{Name: partPlanted, RankLow: 1, RankHigh: 2, Figures: map[string]record.Priced{dataplane.BillCPU: price(99, 2)}},
		{Name: partNothing, RankLow: 2, RankHigh: 2, Figures: map[string]record.Priced{dataplane.BillCPU: price(0, 2)}}}}}}
	l := lineOf(f, 100)
	if l.RankHigh != 2 || l.Prices[partPlanted].Estimate != 99 || len(l.Prices) != 2 || l.Valid != 35 {
		t.Errorf("%+v", l)
	}
}

// The study of a round is valid, and has the reported parts.
func TestStudyOfARound(t *testing.T) {
	s, err := study.Parse([]byte(fmt.Sprintf(billStudy, 500, 300, 2*time.Second, 8, 8)), "bench-bill.yaml", nil)
	must.OK(t, err)
	plan, err := study.NewPlan(s, 1)
	if err != nil || plan.BlockSize() != 5 {
		t.Fatalf("%d trials per block, %v", plan.BlockSize(), err)
	}
	for _, name := range []string{partPlanted, partNothing, partCall} {
		if _, ok := dataplane.BillVariant(s, name); !ok {
			t.Errorf("no part %s", name)
		}
	}
}
