package analysis

import (
	"reflect"
	"testing"

	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// An interval that includes nearly everything agrees with nothing.
func TestRatioNote(t *testing.T) {
	for _, tt := range []struct {
		figure, estimate, low, high float64
		want                        note.Note
	}{
		{99_000, 218_000, 0, 838_000, noteTooWide.Of("99 ms", "0 µs", "838 ms")},
		{99_000, 233_000, 77_000, 390_000, noteTooWide.Of("99 ms", "77 ms", "390 ms")},
		{99_000, 99_000, 70_000, 141_000, noteTooWide.Of("99 ms", "70 ms", "141 ms")},
		{99_000, 99_000, 70_000, 140_000, noteAgrees.Of("99 ms", "70 ms", "140 ms")},
		{99_000, 99_000, 99_000, 99_000, noteAgreesFully.Of("99 ms")},
		{99_000, 218_000, 210_000, 838_000, noteTimes.Of("218 ms", "2.2 times", "99 ms")},
	} {
		f := &record.Finding{Estimate: tt.estimate, Low: tt.low, High: tt.high, Unit: finding.UnitMicroseconds}
		if got := ratioNote(study.Published{Figure: tt.figure, Unit: finding.UnitMicroseconds}, f); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%+v: %s", tt, got)
		}
	}
}

// Warnings have the units of their findings.
func TestWarningsHaveUnits(t *testing.T) {
	us := Measure{Def: finding.Def{Unit: finding.UnitMicroseconds}}
	for _, tt := range []struct {
		e    stat.Estimate
		want string
	}{
		{stat.Estimate{Value: 31_000, Low: -1000, High: 62_000}, "the interval includes zero and reaches beyond the margin of 5.0 ms"},
		{stat.Estimate{Value: 6000, Low: 1000, High: 11_000}, "identical baselines differ by as much: up to 21 ms"},
		{stat.Estimate{Value: 1000, Low: -1000, High: 2000}, "the whole interval lies within the margin of 5.0 ms"},
	} {
		tt.e.Blocks = 2
		if _, why := tt.e.CallIn(stat.Floor{Value: 20_837}, 5000, us.Say); why.String() != tt.want {
			t.Errorf("%s", why)
		}
	}
	e := stat.Mean([]float64{5e6, 5.1e6, 5.2e6, 5e6, 5.1e6, 5.2e6, 900e6}, stat.Options{Say: Measure{Def: finding.Def{Unit: finding.UnitBytes}}.Say})
	if got := e.Warnings; note.Codes(got) != "outlier" || got[0].Args[0] != "900 MB" {
		t.Errorf("%q", got)
	}
}
