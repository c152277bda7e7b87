package load

import (
	"testing"

	"github.com/meshtrial/meshtrial/study/protocol"
)

// TestDialects checks that every protocol has exactly one implementation.
func TestDialects(t *testing.T) {
	for _, name := range protocol.Names(nil) {
		if d := dialects[name]; (d.wire == nil) == (d.caller == nil) {
			t.Errorf("%s has no engine, or two", name)
		}
	}
	if len(dialects) != len(protocol.All()) {
		t.Errorf("%d dialects for %d protocols", len(dialects), len(protocol.All()))
	}
}
