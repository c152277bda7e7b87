package load

import (
	"testing"

	"github.com/meshtrial/meshtrial/study/protocol"
)

// one reports whether exactly one condition holds.
func one(conditions ...bool) bool {
	n := 0
	for _, c := range conditions {
		if c {
			n++
		}
	}
	return n == 1
}

// TestDialects checks that every protocol has exactly one implementation.
func TestDialects(t *testing.T) {
	for _, name := range protocol.Names(nil) {
		if d := dialects[name]; !one(d.wire != nil, d.caller != nil, d.channel != nil) {
			t.Errorf("%s has no engine, or two", name)
		}
	}
	if len(dialects) != len(protocol.All()) {
		t.Errorf("%d dialects for %d protocols", len(dialects), len(protocol.All()))
	}
}
