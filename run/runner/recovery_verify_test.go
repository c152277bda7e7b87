//go:build verify

package runner_test

import (
	"testing"
)

// TestShippedReconnectStorm verifies that all sidecars lose istiod and reconnect,
// whether their connections break or istiod is killed, in which case it must first
// become ready; and that they recover sooner if it accepts more streams per second.
func TestShippedReconnectStorm(t *testing.T) {
	b := newBench(t)
	_, out := b.attempt(t, "reconnect-storm", "--set", "blocks.min=2", "--set", "blocks.max=2", "--set", "blocks.limit=20m", "--set", "proxies=80", "--set", "services=40",
		"--set", "variant=[dropped,killed,request-limit-10,request-limit-1000]")
	f := readFindings(t, out)
	value := func(name, variant string) float64 { return plain(t, f, name, variant) }

	for _, variant := range []string{"dropped", "killed"} {
		if half, last := value("recovery_p50", variant), value("recovery_last", variant); half > last {
			t.Errorf("%s: half after %v, all after %v", variant, half, last)
		}
		for _, name := range []string{"istiod_cpu_peak", "istiod_memory_peak", "istiod_cpu_per_return", "without_p50"} {
			value(name, variant)
		}
		if lost := value("streams_lost", variant); lost < 80 {
			t.Errorf("%s: %v streams lost of 80 sidecars", variant, lost)
		}
	}
	if ready, first := value("istiod_ready_time", "killed"), value("recovery_first", "killed"); first < ready/2 {
		t.Errorf("istiod was ready after %v, and the first sidecar configured after %v", ready, first)
	}
	if few, many := value("recovery_p50", "request-limit-10"), value("recovery_p50", "request-limit-1000"); few <= many {
		t.Errorf("with ten streams a second half were back after %v, with a thousand after %v", few, many)
	}
	b.gone(t)
}
