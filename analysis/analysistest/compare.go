package analysistest

import (
	"testing"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/comparison"
	"github.com/meshtrial/meshtrial/record"
)

// Figures reduces runs to the figures for comparisons.
func Figures(t testing.TB, kinds analysis.Kinds, runs ...record.Run) []*analysis.RunFigures {
	t.Helper()
	var out []*analysis.RunFigures
	for _, run := range runs {
		figures, err := kinds.Figures(run)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, figures)
	}
	return out
}

// Compare compares one run with another, ignoring changes within a margin.
func Compare(t testing.TB, kinds analysis.Kinds, a, b record.Run, margin float64) (comparison.Comparison, error) {
	t.Helper()
	return comparison.Compare(Figures(t, kinds, a), Figures(t, kinds, b), comparison.CompareOptions{MarginRatio: margin})
}
