package worker

import (
	"net/http"
	"testing"

	"github.com/meshtrial/meshtrial/study/protocol"
)

// TestServings checks that every protocol is served and counts a success under
// its own name.
func TestServings(t *testing.T) {
	for _, p := range protocol.All() {
		s := servings[p.Name]
		if s.plain == nil || (s.secure == nil) != (p.TLS == protocol.Endpoint{}) || (s.dial != nil) != p.Calls {
			t.Errorf("%s: %+v", p.Name, s)
			continue
		}
		if good, bad := s.status(http.StatusOK), s.status(http.StatusServiceUnavailable); good != p.Success || protocol.Succeeded(bad) {
			t.Errorf("%s: a success is %q, a failure %q", p.Name, good, bad)
		}
	}
	if len(servings) != len(protocol.All()) {
		t.Errorf("%d servings for %d protocols", len(servings), len(protocol.All()))
	}
}
