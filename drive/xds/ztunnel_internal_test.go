package xds

import (
	"testing"
	"time"
)

// A ztunnel waits twice as long each time, and 10 ms after a stream that ended as
// it does when istiod restarts.
func TestZtunnelRests(t *testing.T) {
	p := &proxy{}
	for i, step := range []struct {
		had    bool
		reason string
		want   time.Duration
	}{
		{false, reasonDial, 20 * time.Millisecond},
		{false, "resource-exhausted", 40 * time.Millisecond},
		{true, "unavailable", 80 * time.Millisecond},
		{true, reasonConnection, 10 * time.Millisecond},
		{false, "unknown", 20 * time.Millisecond},
		{true, "ok", 0},
		{false, reasonDial, 20 * time.Millisecond},
		{true, "canceled", 10 * time.Millisecond},
	} {
		if got := p.ztunnelRest(step.had, step.reason); got != step.want {
			t.Errorf("step %d, %s: %v, want %v", i, step.reason, got, step.want)
		}
	}
	for range 20 {
		p.ztunnelRest(false, reasonDial)
	}
	if got := p.ztunnelRest(false, reasonDial); got != 15*time.Second {
		t.Errorf("at the most %v", got)
	}
}
