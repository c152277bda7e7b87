package xds

import "testing"

// Sidecars that speak HBONE report it in either mode; only with deltas do they subscribe to
// workloads.
func TestHBONEInEitherMode(t *testing.T) {
	for mode, asks := range map[string]bool{ModeDelta: true, ModeSotW: false} {
		s := Spec{HBONE: true, Mode: mode}
		sidecar, ztunnel := &Proxy{Name: "a"}, &Proxy{Name: "b", Type: NodeZtunnel}
		if !s.speaksHBONE(sidecar) || s.discoversWorkloads(sidecar) != asks || s.speaksHBONE(ztunnel) {
			t.Errorf("%s: %v, %v, %v", mode, s.speaksHBONE(sidecar), s.discoversWorkloads(sidecar), s.speaksHBONE(ztunnel))
		}
	}
}
