package findings

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/record"
)

// What is told of changes is read off their own times; what their number
// leaves nothing beyond is not told.
func TestOverChanges(t *testing.T) {
	upTo := func(n int) []float64 { // 1 to n, the largest first
		var out []float64
		for i := n; i > 0; i-- {
			out = append(out, float64(i))
		}
		return out
	}
	for _, tt := range []struct {
		changes, lacking            int
		p50, p90, p99, p999, maxima float64
	}{
		{0, 0, -1, -1, -1, -1, -1},
		{0, 3, -1, -1, -1, -1, -1},
		{1, 0, 1, -1, -1, -1, 1},
		{9, 0, 5, -1, -1, -1, 9},
		{10, 0, 5.5, 9, -1, -1, 10},
		{9, 1, 5, 9, -1, -1, -1},
		{8, 2, 5, -1, -1, -1, -1},
		{4, 6, -1, -1, -1, -1, -1},
		{99, 0, 50, 90, -1, -1, 99},
		{100, 0, 50.5, 90, 99, -1, 100},
		{99, 1, 50, 90, 99, -1, -1},
		{98, 2, 50, 90, -1, -1, -1},
		{1000, 0, 500.5, 900, 990, 999, 1000},
	} {
		values := upTo(tt.changes)
		got := []float64{}
		for _, q := range edgeQuantiles {
			v := overChanges(values, tt.lacking, q.Q)
			if math.IsNaN(v) {
				v = -1
			}
			got = append(got, v)
		}
		if want := []float64{tt.p50, tt.p90, tt.p99, tt.p999, tt.maxima}; !slices.Equal(got, want) {
			t.Errorf("%d changes and %d lacking: %v, want %v", tt.changes, tt.lacking, got, want)
		}
		if !slices.Equal(values, upTo(tt.changes)) {
			t.Error("the values were put in order where they are")
		}
	}
}

// Of a real Envoy it is known when a change was in force, not when it came;
// what it never had is missed like any other's.
func TestConvergenceOfEnvoys(t *testing.T) {
	c := convergenceOf([]*record.Event{
		{Expected: 4, Missed: []int32{3}, Seen: record.Sightings{Proxy: []int32{0, 1, 2},
			ReceivedUS: []int64{100, 200, record.Never}, AckedUS: []int64{150, record.Never, record.Never}, AppliedUS: []int64{record.Never, record.Never, 5000}}},
		{Expected: 2, Missed: []int32{0}, Seen: record.Sightings{Proxy: []int32{2}, ReceivedUS: []int64{record.Never}, AckedUS: []int64{record.Never}, AppliedUS: []int64{7000}}},
		{Expected: 1, Seen: record.Sightings{Proxy: []int32{0}, ReceivedUS: []int64{900}, AckedUS: []int64{record.Never}}},
		{Expected: 1, Superseded: 1},
		{}, // shows nowhere
	})
	if c.pairs != 5 || c.missed != 2 || c.unacked != 2 || c.lacking != 2 || c.superseded != 1 {
		t.Errorf("%+v", c)
	}
	if c.received.Total() != 3 || c.acked.Total() != 1 || c.applied.Total() != 2 || c.received.Quantile(1) != 900 || c.applied.Quantile(0) != 5000 || c.applied.Quantile(1) != 7000 {
		t.Errorf("received %v, acknowledged %v, applied %v", c.received, c.acked, c.applied)
	}
	if !slices.Equal(c.first, []float64{150}) || !slices.Equal(c.last, []float64{150}) {
		t.Errorf("first %v, last %v", c.first, c.last)
	}
	if v := reached(c.applied, 0.99); !math.IsNaN(v) {
		t.Errorf("two pairs have a p99 of %g", v)
	}
	if v := reached(c.applied, 1); v != 7000 {
		t.Errorf("and a largest of %g", v)
	}
}

// A percentile of those alone who had a change says so.
func TestSurvivors(t *testing.T) {
	f := analysistest.Analyze(t, kinds, analysistest.SimulateControl(t, analysistest.ControlStudy, 3, func(c record.Cell) analysistest.ControlWorld {
		w := analysistest.Tuned(c)
		if c["variant"] == "sidecar" {
			w.Spoil = func(_ *record.Trial, events []record.Event) { // 2 of 130 pairs, 1.5%
				events[0].Seen.AckedUS[3], events[1].Seen.AckedUS[4] = record.Never, record.Never
			}
		}
		return w
	}))
	for _, tt := range []struct {
		name, variant string
		want          bool
	}{
		{"convergence_p90", "sidecar", false}, {"convergence_p99", "sidecar", true}, {"convergence_max", "sidecar", true}, {"convergence_max", "none", false},
	} {
		x := analysistest.Get(t, f, tt.name, record.Cell{"variant": tt.variant})
		if got := strings.Contains(strings.Join(x.Warnings, " "), "2% of what proxies needed"); got != tt.want {
			t.Errorf("%s of %s: %q", tt.name, tt.variant, x.Warnings)
		}
	}
}
