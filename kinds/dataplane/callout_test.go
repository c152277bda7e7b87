package dataplane

import (
	"maps"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

// TestCalloutsAtWaypoint: a waypoint's cells differ by the filters that ask a service, which have
// Services of their own; other levels do not apply to them.
func TestCalloutsAtWaypoint(t *testing.T) {
	s, err := study.Parse([]byte("name: a\nquestion: b\nfactors:\n  sidecars: [server, waypoint]\n  filters: [none, lua, ext-authz-grpc]\n"), "a.yaml", nil)
	must.OK(t, err)
	plan, err := study.NewPlan(s, 1)
	must.OK(t, err)
	names := map[string]string{}
	for _, cell := range plan.Cells {
		v := ServerVariant(cell)
		names[v.Name()] = v.Level(FactorFilters)
		if c := ClientVariant(cell); c.Level(FactorFilters) != "" {
			t.Errorf("cell %s: the client's pod has the filters too", plan.Label(cell))
		}
	}
	for name, level := range map[string]string{"waypoint": "", "waypoint-ext-authz-grpc": "ext-authz-grpc", "sidecar-mtls-permissive-lua": "lua"} {
		if got, ok := names[name]; !ok || got != level {
			t.Errorf("%s has the filters %q (%v), expected %q: %v", name, got, ok, level, names)
		}
	}
	if len(plan.Cells) != 5 {
		t.Errorf("%d cells, expected 5: at the waypoint, lua does not apply", len(plan.Cells))
	}
	if _, err := study.Parse([]byte("name: a\nquestion: b\nsettings: {sidecars: waypoint, filters: ext-authz-grpc+lua}\n"), "a.yaml", nil); err == nil || !strings.Contains(err.Error(), "a.yaml:3:") || !strings.Contains(err.Error(), "a waypoint can only have") {
		t.Errorf("lua at a waypoint: %v", err)
	}
}

// TestCalloutsOutside: filters of a waypoint do not apply to servers outside the mesh.
func TestCalloutsOutside(t *testing.T) {
	plan := studytest.Plan(t, "name: a\nquestion: b\nsettings: {sidecars: waypoint}\nfactors:\n  destination: [inside, outside-dns]\n  filters: [none, ext-authz-grpc]\n")
	got := map[string]int{}
	for _, cell := range plan.Cells {
		got[cell[study.FactorDestination]+" "+ServerVariant(cell).Level(FactorFilters)]++
		if study.Outside(cell) && cell[FactorFilters] != study.NotApplicable {
			t.Errorf("cell %s has the filters %s", plan.Label(cell), cell[FactorFilters])
		}
	}
	if want := map[string]int{"inside ": 1, "inside ext-authz-grpc": 1, "outside-dns ": 1}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
