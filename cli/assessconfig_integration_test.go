//go:build integration

package cli

import (
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/advise/scope"
)

// TestScopeOfALab reads a real sidecar, finds whose objects caused its configuration, and checks
// that a Sidecar resource removes the configuration of others.
func TestScopeOfALab(t *testing.T) {
	s := newScopedShop(t)
	before, owned := s.known(istiodService, scope.Owner{Kind: "Service", Namespace: "scoped", Name: "shop"}, scope.Owner{Kind: "VirtualService", Namespace: "scoped", Name: "shop-routes"},
		scope.Owner{Kind: "DestinationRule", Namespace: "scoped", Name: "shop-subsets"}, scope.Owner{Kind: "ServiceEntry", Namespace: "scoped", Name: "outside.example.com"})
	if u := before.Uncalled; u == nil || u.Clusters < 4 || u.Never != u.Clusters {
		t.Errorf("a workload that calls nobody: %+v", u)
	}
	// Clusters disappear at once; listeners drain first, see TestScopeAfterDrain.
	s.narrowed(time.Minute, func(after scope.Report, owners map[scope.Owner]scope.OwnerTotal) bool {
		return owners[istiodService].DumpBytes < owned[istiodService].DumpBytes && after.DumpBytes < before.DumpBytes
	})
}
