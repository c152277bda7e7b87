package report

import (
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/record"
)

// laidOut returns a study that compares sidecars with none, at several connections
// and arrivals.
func laidOut() record.Findings {
	f := record.Findings{Factors: []record.FactorLevels{
		{Factor: "connections", Levels: []string{"2", "16", "64"}, Unit: "connections"},
		{Factor: "sidecars", Levels: []string{"none", "server", "both"}},
		{Factor: "arrival", Levels: []string{"poisson", "burst"}},
	}}
	for _, connections := range f.Factors[0].Levels {
		for _, sidecars := range f.Factors[1].Levels {
			for _, arrival := range f.Factors[2].Levels {
				cell := record.Cell{"connections": connections, "sidecars": sidecars, "arrival": arrival}
				f.Cells = append(f.Cells, record.CellSummary{Cell: cell})
				if sidecars != "none" {
					f.Findings = append(f.Findings, record.Finding{Name: "latency_p50_overhead", Cell: cell, Against: cell.With(record.Cell{"sidecars": "none"})})
				}
			}
		}
	}
	return f
}

func TestLayout(t *testing.T) {
	f := laidOut()
	l := LayoutOf(f)
	if !slices.Equal(l.Compared, []string{"sidecars"}) || l.Numeric == nil || l.Numeric.Factor != "connections" {
		t.Fatalf("compared %v, numeric %v", l.Compared, l.Numeric)
	}
	for _, c := range []struct {
		sidecars, arrival string
		want              Look
	}{
		{"both", "poisson", Look{"series-1", 0}}, {"none", "poisson", Look{"series-1", 2}}, {"both", "burst", Look{"series-2", 0}},
	} {
		if got := l.Look(record.Cell{"connections": "2", "sidecars": c.sidecars, "arrival": c.arrival}); got != c.want {
			t.Errorf("%s, %s: %v, want %v", c.sidecars, c.arrival, got, c.want)
		}
	}
	all := l.Slices(func(record.CellSummary) bool { return true })
	if len(all) != 3 || !all[1].Initial || all[0].Initial || len(all[1].Cells) != 6 || all[1].Options[0] != (Option{"connections", "16"}) {
		t.Errorf("slices %+v", all)
	}
	if got := l.Label(all[1].Cells[5].Cell, all[1].Cells); got != "both · burst" {
		t.Errorf("label %q", got)
	}
	groups := l.Along("connections", f.Cells, "sidecars")
	if len(groups) != 6 || len(groups[0].Cells) != 3 || groups[0].Label != "poisson" || groups[0].Cells[2].Cell["connections"] != "64" {
		t.Errorf("groups %+v", groups)
	}
}

// Without another factor, colours distinguish the compared levels; the baseline is
// grey.
func TestLayoutOfOneFactor(t *testing.T) {
	f := record.Findings{Factors: []record.FactorLevels{{Factor: "sidecars", Levels: []string{"none", "both"}}}}
	f.Findings = []record.Finding{{Name: "latency_p50_overhead", Cell: record.Cell{"sidecars": "both"}, Against: record.Cell{"sidecars": "none"}}}
	l := LayoutOf(f)
	for level, want := range map[string]string{"none": "series-0", "both": "series-1"} {
		if got := l.Look(record.Cell{"sidecars": level}); got != (Look{want, 0}) {
			t.Errorf("%s: %v", level, got)
		}
	}
}
