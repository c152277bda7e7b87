//go:build verify

package cli

import (
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/advise/scope"
)

// TestScopeAfterDrain: what a Sidecar resource removes is gone to the last byte once the
// listeners have drained, for which Istio allows 45 s.
func TestScopeAfterDrain(t *testing.T) {
	s := newScopedShop(t)
	before, _ := s.known(istiodService)
	s.narrowed(4*time.Minute, func(after scope.Report, owners map[scope.Owner]scope.OwnerTotal) bool {
		return owners[istiodService].DumpBytes == 0 && after.DumpBytes < before.DumpBytes
	})
}
