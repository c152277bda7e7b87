package study

import (
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
)

// A kind from another package is equivalent to those of this one: its files are read, its errors
// have positions, and what belongs to other kinds is rejected.
func TestAddedKind(t *testing.T) {
	const noise Kind = "noise"
	where := Choice("where", ScopeLoad, "here", "Where.", "here", "there")
	AddKind(noise, Spec{
		About: "noise", Example: "spin: 1", Measures: []string{"busy"},
		Factors:  []Factor{NewInteger("spin", "threads", "0", "Threads that spin.", 0, 8), where},
		Findings: finding.NewTable([]finding.Def{{Name: "busy", Unit: finding.UnitRatio, Doc: "Busy.", Probe: "busy", Section: finding.SectionOther}}),
		Check: func(d *Decoder, s *Study) {
			if s.Blocks.Min < 2 {
				d.Fail(d.Pos("kind"), CodeConflict, "", "one block says nothing")
			}
		},
		Trial: func(s *Study, _ record.Cell) (shortest, longest time.Duration) { return time.Second, time.Second },
	})
	t.Cleanup(func() {
		kinds = kinds[:len(kinds)-1]
		delete(specs, noise)
	})
	const text = "name: n\nquestion: How busy?\nkind: noise\nfactors: {spin: [0, 2]}\nsettings: {where: there}\nbaseline: {spin: 0}\n"
	plan := planOf(t, text)
	if len(plan.Cells) != 2 || plan.Cells[1]["spin"] != "2" || plan.Cells[1]["where"] != "there" || len(plan.Cells[1]) != 2 {
		t.Fatalf("cells %v", plan.Cells)
	}
	if again := parseOK(t, string(plan.Study.Marshal())); again.Kind != noise || len(again.Measures) != 1 {
		t.Errorf("written and read: %+v", again)
	}
	for change, want := range map[string]string{
		"settings: {where: there}": "settings: {where: nowhere}|unknown level \"nowhere\"",
		"factors: {spin: [0, 2]}":  "factors: {spin: [0, 9]}|9",
		"kind: noise":              "kind: data-plane|leave it out, or say kind: noise",
		"baseline: {spin: 0}":      "baseline: {spin: 0}\nblocks: {min: 1, max: 2}|x.yaml:3:7: one block says nothing",
	} {
		to, says, _ := strings.Cut(want, "|")
		answered(t, strings.Replace(text, change, to, 1), nil, "", says)
	}
}
