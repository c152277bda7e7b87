package report

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/study"
)

func TestWordsOfFindings(t *testing.T) {
	kinds := Kinds{{Findings: study.ControlPlane.Findings()}, {Findings: resilience.Kind.Findings()}, {Findings: study.DataPlane.Findings()}}
	for name, want := range map[string]string{
		"latency_p999_overhead": "latency p99.9 overhead", "cpu_client_proxy_per_request": "CPU client proxy per request",
		"istiod_cpu_per_change": "istiod CPU per change", "error_share": "share of requests that failed", "unheard_of": "unheard of",
	} {
		if got := kinds.words(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]string{
		"latency_p999": "to the p99.9 latency", "cpu_machine_per_request": "to the CPU of the whole machine for each request",
		"cpu_client_proxy_per_request": "to the CPU of the client's sidecar for each request",
	} {
		if got := kinds[2].MeasureWords(name + finding.Overhead); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// Sentences of a leading section come first, those of others last.
func TestAnswersOfSections(t *testing.T) {
	says := func(s string) func(record.Findings) []string {
		return func(record.Findings) []string { return []string{s} }
	}
	k := Kind{Answers: says("overhead"), Sections: []Section{{Name: "mute"}, Section{Name: "money"}.Answering(says("money")), Section{Name: "sizing"}.Leading(says("sizing"))}}
	f := record.Findings{}
	f.Validity.Trials, f.Validity.Valid = 1, 1
	if got := strings.Join(k.answers(f), ", "); got != "sizing, overhead, money" {
		t.Errorf("the answers are %s", got)
	}
}

// A figure that was never reached has no value to compare with a published one,
// and no interval.
func TestPublishedBesideWhatWasNotReached(t *testing.T) {
	k := Kind{Findings: study.ControlPlane.Findings()}
	f := record.Findings{Published: []record.Published{{Source: "s", Claim: "c", Finding: "istiod_ready_time", Figure: 1566e6, Unit: "us",
		Measured: &record.Finding{Name: "istiod_ready_time", Unit: "us", Verdict: record.VerdictInvalid, Reason: record.ReasonNotReached}}}}
	if got := k.publishedTable(f).Rows[0][3].S; got != "not reached" {
		t.Errorf("measured is %q, want %q", got, "not reached")
	}
}
