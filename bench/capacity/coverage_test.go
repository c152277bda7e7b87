package main

import (
	"testing"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/testing/must"
)

// Intervals include the truth in synthetic worlds with non-linear costs. Of 12 worlds, 9
// suffice for each output: fewer occur in 3% of such draws with a coverage of 0.9, and in
// 93% with 0.5. The worlds are always the same, so the same program always has the same
// result; `go run ./bench/capacity -only coverage` tries more of them.
func TestSimulationCoverage(t *testing.T) {
	const worlds, least = 12, 9
	got, err := coverage(t.Context(), designs()[1], 1, worlds)
	must.OK(t, err)
	for _, times := range beyonds {
		for _, o := range model.Outputs {
			if c := got[figure{times, o.Name}]; c.all != worlds || c.within < least {
				t.Errorf("%d times beyond, %s: %d of %d intervals hold the truth, %d at least", times, o.Name, c.within, c.all, least)
			}
		}
	}
}
