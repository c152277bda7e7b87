package cli

import (
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/meshtrial/meshtrial/study"
)

// A kind that says nothing of its plans has what all have; every kind that is
// built in says more.
func TestPlanOfAnotherKind(t *testing.T) {
	s, err := study.Parse([]byte("name: a\nquestion: b?\nfactors: {sidecars: [none, both]}\n"), "a.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := study.NewPlan(s, 1)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	other := plannerOf("noise")
	if err := other.writeCells(table, plan); err != nil || table.Flush() != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) != 3 || strings.Contains(lines[0], "pod") {
		t.Errorf("%s", out.String())
	}
	if other.deploys != nil || other.fill != nil {
		t.Error("it knows what an unknown kind deploys")
	}
	for _, k := range study.Kinds() {
		if one := plannerOf(k); one.columns == nil || one.deploys == nil || one.fill == nil {
			t.Errorf("plans of %s are like those of any", k)
		}
	}
}
