// Package studytest makes studies and plans for tests of other packages, as a
// user's file would.
package studytest

import (
	"testing"

	"github.com/meshtrial/meshtrial/study"
)

// ThreeCells has three cells without a mesh, of which one is a baseline: a
// block has four trials.
const ThreeCells = `
name: three
question: Which?
mesh: none
settings: {sidecars: none, rate: 100}
factors: {connections: [1, 2, 4]}
baseline: {connections: 1}
warmup: {min: 500ms, max: 1s}
window: 500ms
interval: 250ms
blocks: {min: 2, max: 3, limit: 1h}
seed: 7
`

// Parse reads a study, with values put over it as --set does.
func Parse(t testing.TB, text string, sets ...string) *study.Study {
	t.Helper()
	s, err := study.Parse([]byte(text), "test.yaml", sets)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Plan is a study's plan, with seed 1 where the study names none.
func Plan(t testing.TB, text string, sets ...string) *study.Plan {
	t.Helper()
	s := Parse(t, text, sets...)
	plan, err := study.NewPlan(s, max(s.Seed, 1))
	if err != nil {
		t.Fatal(err)
	}
	return plan
}
