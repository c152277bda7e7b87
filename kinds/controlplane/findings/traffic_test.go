package findings

import (
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// If more than 1% of the requests failed, the 99th percentile over all requests is not that of an
// answered one.
func TestTrafficLatencyOfFailed(t *testing.T) {
	for lost, want := range map[int64]bool{0: true, 10: true, 11: false} {
		all := trafficMeasures()
		m := all[slices.IndexFunc(all, func(m analysis.Measure) bool { return m.Name == "traffic_latency_p99" })]
		o := costOf(t, 3, func(block int, trial *record.Trial) {
			x := &record.Traffic{Requests: 1000, Completed: 1000, Latency: record.LatencyAt(0.99, 5000)}
			if block == 1 {
				x.Completed, x.Failed, x.Unfinished = 1000-lost, map[string]int64{"status": lost / 2}, lost-lost/2
			}
			trial.Control.Traffic = x
		})
		m.Def = study.ControlPlane.Findings().Must(m.Name)
		f, ok := o.Plain(0, m)
		if got := f.Verdict == record.VerdictMeasured && f.Estimate == 5000; !ok || got != want {
			t.Errorf("%d lost: %+v", lost, f)
		}
		if !want && (f.Reason != record.ReasonNotReached || !strings.Contains(f.Warnings[0].String(), "in 1 of 3 trials more than 1% of the requests failed or never ended")) {
			t.Errorf("%d lost: %+v", lost, f)
		}
	}
}
