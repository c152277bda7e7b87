package report

import (
	"testing"

	"github.com/meshtrial/meshtrial/finding"
	"github.com/meshtrial/meshtrial/study"
)

func TestWordsOfFindings(t *testing.T) {
	kinds := Kinds{{Findings: study.ControlPlane.Findings()}, {Findings: study.Resilience.Findings()}, {Findings: study.DataPlane.Findings()}}
	for name, want := range map[string]string{
		"latency_p999_overhead": "latency p99.9 overhead", "cpu_client_proxy_per_request": "CPU client proxy per request",
		"istiod_cpu_per_change": "istiod CPU per change", "error_share": "share of requests that failed", "unheard_of": "unheard of",
	} {
		if got := kinds.words(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got := kinds[2].MeasureWords("latency_p999" + finding.Overhead); got != "to the p99.9 latency" {
		t.Errorf("got %q", got)
	}
}
