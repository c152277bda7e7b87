// Package studytest makes studies and plans for tests of other packages, as a user's
// file would.
package studytest

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// ThreeCells has three cells without a mesh, one of which is a baseline: a block has
// four trials.
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

// Minimal begins studies that a test completes.
const Minimal = "name: x\nquestion: why?\n"

// Labels returns the names of a plan's cells.
func Labels(p *study.Plan) string {
	var out []string
	for _, c := range p.Cells {
		out = append(out, p.Label(c))
	}
	return strings.Join(out, "; ")
}

// Parse parses a study, with values overridden as by --set.
func Parse(t testing.TB, text string, sets ...string) *study.Study {
	t.Helper()
	s, err := study.Parse([]byte(text), "test.yaml", sets)
	must.OK(t, err)
	return s
}

// Plan returns a study's plan, with seed 1 if the study names none.
func Plan(t testing.TB, text string, sets ...string) *study.Plan {
	t.Helper()
	s := Parse(t, text, sets...)
	plan, err := study.NewPlan(s, max(s.Seed, 1))
	must.OK(t, err)
	return plan
}

// SameAgain fails unless the study, once written, is parsed as the same study and has
// the same plan.
func SameAgain(t interface{ Fatalf(string, ...any) }, s *study.Study) {
	text := s.Marshal()
	again, err := study.ParseAgain(text, "again.yaml", nil)
	if err != nil {
		t.Fatalf("resolved study is refused: %v\n%s", err, text)
	}
	if written := again.Marshal(); !bytes.Equal(written, text) {
		t.Fatalf("resolved study differs:\n%s\n%s", text, written)
	}
	a, errA := study.NewPlan(s, 7)
	b, errB := study.NewPlan(again, 7)
	if errA != nil || errB != nil || !reflect.DeepEqual(a.Cells, b.Cells) || !slices.Equal(a.Block(3), b.Block(3)) {
		t.Fatalf("plans differ: %v, %v", errA, errB)
	}
}
