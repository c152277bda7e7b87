package app

import (
	"testing"

	"github.com/meshtrial/meshtrial/observe/signals"
)

// A query for a single namespace hides calls to other namespaces. Sidecars generated from its
// answer would cut those off.
func TestNarrowedMetrics(t *testing.T) {
	to := func(namespaces ...string) (out []signals.Sample) {
		for _, n := range namespaces {
			out = append(out, signals.Sample{Labels: map[string]string{"destination_service_namespace": n}})
		}
		return out
	}
	for _, c := range []struct {
		name    string
		samples []signals.Sample
		noted   bool
	}{
		{"none", nil, false},
		{"one series", to("shop"), false},
		{"two to one namespace", to("shop", "shop"), true},
		{"two namespaces", to("shop", "pay"), false},
	} {
		if _, got := onlyNamespace(c.samples); got != c.noted {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
