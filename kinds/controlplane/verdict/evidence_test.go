package verdict

import (
	"testing"

	"github.com/meshtrial/meshtrial/drive/churn"
	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
)

// A Sidecar resource keeps changes in other namespaces from the sidecars that it applies to.
func TestNeeds(t *testing.T) {
	a := Audience{ExportTo: "*", EgressHosts: []string{"./*"}, Namespaces: []string{"mm-1"}, Workload: "svc-1",
		Proxies: []Proxy{
			{Type: population.Sidecar, Namespace: "mm-1", Workload: "svc-1"},
			{Type: population.Sidecar, Namespace: "mm-1", Workload: "svc-4"},
			{Type: population.Sidecar, Namespace: "mm-0", Workload: "svc-0"},
			{Type: population.Router, Namespace: "gateways"},
		},
		Scopes: []churn.Scope{{Sidecars: true, Gateways: true, Owner: "mm-2"}, {Sidecars: true, Owner: "mm-1"}}}
	for _, tt := range []struct {
		scope     string
		elsewhere [4]bool // which proxies need a change in a namespace without proxies
		own       [4]bool // of mm-1, for sidecars
	}{
		{controlplane.SidecarScopeNone, [4]bool{true, true, true, true}, [4]bool{true, true, true, false}},
		{controlplane.SidecarScopeMesh, [4]bool{false, false, false, true}, [4]bool{true, true, false, false}},
		{controlplane.SidecarScopeNamespace, [4]bool{false, false, true, true}, [4]bool{true, true, true, false}},
		{controlplane.SidecarScopeWorkload, [4]bool{false, true, true, true}, [4]bool{true, true, true, false}},
	} {
		a.SidecarScope = tt.scope
		for p := range int32(4) {
			if a.Needs(0, p) != tt.elsewhere[p] || a.Needs(1, p) != tt.own[p] {
				t.Errorf("scope %s, proxy %d: %v, %v", tt.scope, p, a.Needs(0, p), a.Needs(1, p))
			}
		}
	}
	a.ExportTo = "."
	if a.SidecarScope = controlplane.SidecarScopeNone; a.Needs(1, 2) || !a.Needs(1, 0) {
		t.Error("what is exported to its own namespace alone")
	}
}
