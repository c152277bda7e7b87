package findings

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/study"
)

// The share of single-pair errors that cancel in the mean is reported, with a warning if they are
// many. Nothing is reported if they were not counted.
func TestUnexplainedPairs(t *testing.T) {
	run := analysistest.SimulateControl(t, analysistest.ControlStudy, 3, func(c record.Cell) analysistest.ControlWorld {
		w := analysistest.Tuned(c)
		w.Spoil = func(trial *record.Trial, _ []record.Event) {
			switch c[study.FactorVariant] {
			case "none":
				trial.Control.Unexplained = &record.Unexplained{Pairs: 40, Beyond: 8, Unlogged: 3, LargestUS: -8e6}
			case "sidecar":
				trial.Control.Unexplained = &record.Unexplained{Pairs: 40, Beyond: 2, LargestUS: 20_000}
			}
		}
		return w
	})
	f := analysistest.Analyze(t, kinds, run)
	at := func(v string) record.Cell { return record.Cell{"variant": v} }
	many := analysistest.Get(t, f, "stage_residual_share", at("none"))
	want := "48 of 240 change-proxy pairs differ from their own stages by more than 5% of their time or 2 ms, one by -8.0 s; such errors cancel in the mean; 18 of them belong to pushes that istiod does not log per proxy"
	if many.Estimate != 0.2 || many.Unit != finding.UnitRatio || !strings.Contains(note.Words(many.Warnings), want) {
		t.Errorf("%+v", many)
	}
	if few := analysistest.Get(t, f, "stage_residual_share", at("sidecar")); few.Estimate != 0.05 || notePairsApart.In(few.Warnings) {
		t.Errorf("%+v", few)
	}
	if x := analysistest.Get(t, f, "stage_residual", at("none")); noteResidual.In(x.Warnings) {
		t.Errorf("the mean is within its bound: %+v", x)
	}
	for _, x := range f.Findings {
		if x.Name == "stage_residual_share" && x.Cell["variant"] == "slow" {
			t.Errorf("a share of what nobody counted: %+v", x)
		}
	}
}
