package sections

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
)

// The headline gives shares for what the verdicts call real, and explains why it omits the rest.
func TestHopWordsGoByVerdicts(t *testing.T) {
	term := func(name string, estimate, low, high float64, verdict, reason string) record.HopTerm {
		p := record.Priced{Estimate: estimate, Low: low, High: high, Unit: finding.UnitMicroseconds, Blocks: 8, Verdict: verdict, Reason: reason}
		return record.HopTerm{Name: name, Figures: map[string]record.Priced{dataplane.HopP50: p}}
	}
	h := record.Hops{Terms: []record.HopTerm{
		term(dataplane.HopPath, 1000, 950, 1050, record.VerdictMeasured, ""),
		term(dataplane.HopClientProxy, 400, 300, 500, record.VerdictReal, ""),
		term(dataplane.HopServerProxy, 30, 5, 55, record.VerdictInconclusive, record.ReasonWithinFloor),
		term(dataplane.HopTLSTerm, 24, 2, 46, record.VerdictInconclusive, record.ReasonMany),
		term(dataplane.HopInterception, 1, -9, 11, record.VerdictInconclusive, record.ReasonIncludesZero),
		term(dataplane.HopResidual, 5, 1, 9, record.VerdictInconclusive, record.ReasonLateLoad),
		term(dataplane.HopTotal, 2000, 1900, 2100, record.VerdictMeasured, ""),
	}}
	const want = "Of the median latency, 2.0 ms (1.9 to 2.1): path 50% and client proxy 20%. Indistinguishable from zero: interception. " +
		"Not significant: server proxy (within the noise floor), TLS (of so many differences some exclude zero by chance) and the residual (5.0 µs (1.0 to 9.0); the generator's own lag is large beside it)."
	if got := hopWords(h, dataplane.HopP50); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	h.Terms[5] = term(dataplane.HopResidual, 5, 1, 9, record.VerdictMeasured, "")
	if got := hopWords(h, dataplane.HopP50); strings.Contains(got, "do not cost the sum") || !strings.Contains(got, "whether that is more than chance is not known") {
		t.Error(got)
	}
	h.Terms[5] = term(dataplane.HopResidual, 5, 1, 9, record.VerdictReal, "")
	if got := hopWords(h, dataplane.HopP50); !strings.HasSuffix(got, "both sidecars together do not cost the sum of each alone.") {
		t.Error(got)
	}
}
