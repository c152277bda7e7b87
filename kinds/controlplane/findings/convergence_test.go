package findings

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// Quantiles over changes are read off the changes' own times, and are absent if too few changes lie
// beyond them.
func TestOverChanges(t *testing.T) {
	upTo := func(n int) []float64 { // 1 to n, largest first
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
		{9, 1, 5, 9, -1, -1, -2},
		{8, 2, 5, -2, -1, -1, -2},
		{4, 6, -2, -2, -1, -1, -2},
		{99, 0, 50, 90, -1, -1, 99},
		{100, 0, 50.5, 90, 99, -1, 100},
		{99, 1, 50, 90, 99, -1, -2},
		{98, 2, 50, 90, -2, -1, -2},
		{1000, 0, 500.5, 900, 990, 999, 1000},
	} {
		values := upTo(tt.changes)
		got := []float64{}
		for _, q := range []float64{0.5, 0.9, 0.99, 0.999, 1} {
			v := overChanges(values, tt.lacking, q)
			switch {
			case math.IsNaN(v):
				v = -1
			case math.IsInf(v, 1): // among the changes without a time
				v = -2
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
	// A change whose last proxy never had it counts as lacking.
	of := []float64{1, math.Inf(1), 3}
	if half, all := overChanges(of, 0, 0.5), overChanges(of, 0, 1); half != 3 || !math.IsInf(all, 1) {
		t.Errorf("half %g, all %g", half, all)
	}
}

// For a real Envoy it is known when a change was in force, not when it arrived. A change that it
// never had is missed like any other.
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
	// Three proxies needed it: one never had it, and one never acknowledged it.
	never := []float64{math.Inf(1)}
	if !slices.Equal(c.first, []float64{150}) || !slices.Equal(c.median, never) || !slices.Equal(c.last, never) {
		t.Errorf("first %v, median %v, last %v", c.first, c.median, c.last)
	}
	if v := reached(c.applied, 0.99); !math.IsNaN(v) {
		t.Errorf("two pairs have a p99 of %g", v)
	}
	if v := reached(c.applied, 1); v != 7000 {
		t.Errorf("and a largest of %g", v)
	}
}

// A change that some proxy never acknowledged has no last proxy. Quantiles of the last proxy over
// changes rank it beyond all others, and are not computed from the rest. Differences of percentiles
// over pairs state how many pairs each cell omits.
func TestLastProxyThatNeverHad(t *testing.T) {
	f := analysistest.Analyze(t, kinds, analysistest.SimulateControl(t, analysistest.ControlStudy, 3, func(c record.Cell) analysistest.ControlWorld {
		w := analysistest.Tuned(c)
		if c["variant"] == "sidecar" {
			w.Spoil = func(trial *record.Trial, events []record.Event) {
				for i := range events[:4+4*min(trial.Block, 1)] { // of 10 changes 4, and in later blocks 8, lack one of 13 proxies
					events[i].Seen.AckedUS[3] = record.Never
				}
			}
		}
		return w
	}))
	at := record.Cell{"variant": "sidecar"}
	for name, reached := range map[string]bool{
		"convergence_first": true, "convergence_median": true, "convergence_first_max": true, "convergence_last": false, "convergence_last_max": false, "convergence_p50": true,
		"convergence_p50_overhead": true, "convergence_first_overhead": true, "convergence_last_overhead": false,
	} {
		x := analysistest.Get(t, f, name, at)
		if got := x.Reason != record.ReasonNotReached; got != reached || reached != (x.Verdict != record.VerdictInvalid) {
			t.Errorf("%s: %+v", name, x)
		}
	}
	if x := analysistest.Get(t, f, "convergence_last", at); x.Warnings[0].Code != "never_came" || x.Warnings[0].Args[0] != 2.0 || !strings.Contains(x.Warnings[0].String(), "by all proxies that needed them") {
		t.Errorf("%+v", x)
	}
	for name, want := range map[string]bool{"convergence_p99_overhead": true, "convergence_p50_overhead": false, "received_p99": true, "received_p50": false} {
		x := analysistest.Get(t, f, name, at)
		if got := noteSurvivors.In(x.Warnings); got != want {
			t.Errorf("%s: %q", name, x.Warnings)
		}
		if strings.HasSuffix(name, "_overhead") && want && !slices.ContainsFunc(x.Warnings, noteSurvivors.Of("5%", "proxies").At("sidecar").Like) {
			t.Errorf("%s does not say of which cell: %q", name, x.Warnings)
		}
	}
	c := f.Cells[1].Control
	if c.Followed == 0 || c.Changes[0].LastUS != -1 || c.Changes[0].MedianUS <= 0 || c.Changes[9].LastUS <= 0 {
		t.Errorf("%d, %+v", c.Followed, c.Changes[0])
	}
	if _, err := json.Marshal(f); err != nil {
		t.Error(err)
	}
}

// Lost pairs break the bounds of searches, for every finding that covers them.
func TestLostPairsBreakBounds(t *testing.T) {
	for _, by := range []string{"convergence_p99", "convergence_last", "convergence_last_p90", "received_p99"} {
		text := strings.Replace(`
name: one
question: How many?
control: {changes: 20}
factors: {proxies: [10, 20, 40, 80]}
search: [{factor: proxies, finding: BY, bound: 300 ms}]
blocks: {min: 1, max: 3}
`, "BY", by, 1)
		run, _ := analysistest.Climbed(t, kinds, analysistest.SimulateControl(t, text, 1, func(c record.Cell) analysistest.ControlWorld {
			return analysistest.ControlWorld{DebounceMS: 10, Spoil: func(trial *record.Trial, events []record.Event) {
				if n := len(events[0].Seen.Proxy); n >= 40 {
					for i := range events { // 1 in 20 pairs never arrived
						for p := 0; p < n; p += 20 {
							events[i].Missed = append(events[i].Missed, int32(p))
						}
						events[i].Seen = record.Sightings{Proxy: events[i].Seen.Proxy[n/20:], ReceivedUS: events[i].Seen.ReceivedUS[n/20:], AckedUS: events[i].Seen.AckedUS[n/20:]}
					}
				}
			}}
		}), 1)
		if x := analysistest.Get(t, analysistest.Analyze(t, kinds, run), "highest_proxies", record.Cell{}); x.Low != 20 || x.High != 40 {
			t.Errorf("%s: %+v", by, x)
		}
	}
}

// A percentile over pairs requires enough pairs to leave one beyond it. The median and the maximum
// accept any number.
func TestReached(t *testing.T) {
	for _, tt := range []struct {
		pairs int
		told  [5]bool // p50, p90, p99, p99.9, max
	}{
		{0, [5]bool{}},
		{1, [5]bool{true, false, false, false, true}},
		{9, [5]bool{true, false, false, false, true}},
		{10, [5]bool{true, true, false, false, true}},
		{99, [5]bool{true, true, false, false, true}},
		{100, [5]bool{true, true, true, false, true}},
		{999, [5]bool{true, true, true, false, true}},
		{1000, [5]bool{true, true, true, true, true}},
	} {
		c := stat.FromSamples(make([]float64, tt.pairs))
		for i, q := range []float64{0.5, 0.9, 0.99, 0.999, 1} {
			if told := !math.IsNaN(reached(c, q)); told != tt.told[i] {
				t.Errorf("%d pairs, %g: told %v", tt.pairs, q, told)
			}
		}
	}
}

// A percentile over pairs states its number of changes if those alone would be too few. Without the
// pairs it has no figure, and says why.
func TestPairsOfFewChanges(t *testing.T) {
	f := analysistest.Analyze(t, kinds, analysistest.SimulateControl(t, analysistest.ControlStudy, 3, analysistest.Tuned)) // 10 changes, 13 proxies
	none, slow := record.Cell{study.FactorVariant: "none"}, record.Cell{study.FactorVariant: "slow"}
	p99 := analysistest.Get(t, f, "convergence_p99", none)
	if !strings.Contains(note.Words(p99.Warnings), "a trial has 130 change-proxy pairs but only 10 changes") {
		t.Errorf("%+v", p99)
	}
	if x := analysistest.Get(t, f, "convergence_p90", none); noteFewChanges.In(x.Warnings) {
		t.Errorf("10 changes reach the 90th percentile: %+v", x)
	}
	for _, x := range f.Findings {
		if x.Name == "convergence_p999" {
			t.Errorf("130 pairs have a p99.9: %+v", x)
		}
	}
	x := analysistest.Get(t, f, "convergence_p999_overhead", slow)
	if x.Verdict != record.VerdictInvalid || x.Reason != record.ReasonTooFew || len(x.Warnings) != 1 || x.Warnings[0].Code != "few_counted" || x.Warnings[0].Args[1] != 1000.0 {
		t.Errorf("%+v", x)
	}
	for _, c := range f.Cells {
		if c.Control.Acknowledged != 390*int64(c.Trials/3) {
			t.Errorf("%s: %d pairs", c.Label, c.Control.Acknowledged)
		}
	}
}

// A search continues if there are too few pairs for its percentile, using the slowest, and states
// the number of changes behind its result.
func TestSearchOfFewPairs(t *testing.T) {
	run, _ := analysistest.Climbed(t, kinds, analysistest.Refined(t, 1, analysistest.Limited(func(int) int { return 29 })), 1)
	x := analysistest.Get(t, analysistest.Analyze(t, kinds, run), "highest_proxies", record.Cell{})
	if x.Low != 28 || !strings.Contains(note.Words(x.Warnings), "at 28 sidecars convergence_p99: a trial has ") {
		t.Errorf("%+v", x)
	}
}

// Neither a constraint's verdict nor a value may cover only the changes that arrived.
func TestKeptWithLostPairs(t *testing.T) {
	of := func(loses func(block int) bool) func(name string, relative bool, limit float64, swapped bool) (record.TunedBound, record.TunedValue) {
		run := analysistest.SimulateControl(t, analysistest.ControlStudy, 4, func(c record.Cell) analysistest.ControlWorld {
			w := analysistest.Tuned(c)
			if c["variant"] == "sidecar" {
				w.Spoil = func(trial *record.Trial, events []record.Event) {
					if loses(trial.Block) { // 8 of 10 changes lack one of 13 proxies: 6% of the pairs
						for i := range events[:8] {
							events[i].Seen.AckedUS[3] = record.Never
						}
					}
				}
			}
			return w
		})
		o, err := kinds.Observe(run)
		must.OK(t, err)
		return func(name string, relative bool, limit float64, swapped bool) (record.TunedBound, record.TunedValue) {
			recommended, base := 1, 0
			if swapped {
				recommended, base = base, recommended
			}
			m, _, _ := o.MeasureNamed(name)
			return kept(o, study.TuneBound{Finding: name, Relative: relative, Limit: limit, Unit: "us"}, recommended, base), plainValue(o, 1, m)
		}
	}
	worlds := map[string]func(name string, relative bool, limit float64, swapped bool) (record.TunedBound, record.TunedValue){
		"always": of(func(int) bool { return true }), "half": of(func(block int) bool { return block%2 == 0 }), "never": of(func(int) bool { return false }),
	}
	for _, c := range []struct {
		world, name string
		relative    bool
		swapped     bool
		want        string
		known       bool
	}{
		{"never", "convergence_last", true, false, record.TunedMet, true},
		{"never", "convergence_p99", false, false, record.TunedMet, true},
		{"half", "convergence_last", true, false, record.VerdictInconclusive, false},
		{"half", "convergence_last", false, false, record.VerdictInconclusive, false},
		{"half", "convergence_p99", true, false, record.TunedBroken, false}, // over all pairs 3% are missing
		{"half", "convergence_p50", true, false, record.TunedMet, true},
		{"always", "convergence_last", true, false, record.TunedBroken, false},
		{"always", "convergence_last", false, false, record.TunedBroken, false},
		{"always", "convergence_p99", true, false, record.TunedBroken, false},
		{"always", "convergence_p99", false, false, record.TunedBroken, false},
		{"always", "convergence_p99", true, true, record.VerdictInconclusive, false}, // the current setting lost them
		{"always", "convergence_p99", false, true, record.TunedMet, false},
		{"always", "convergence_p50", true, false, record.TunedMet, true},
	} {
		limit := 10e6
		if c.relative {
			limit = 0.5
		}
		got, value := worlds[c.world](c.name, c.relative, limit, c.swapped)
		if got.Verdict != c.want || value.Known != c.known || (c.want == record.TunedMet) == slices.ContainsFunc([]*note.Kind{noteUnreached, noteUnreachedInUse, noteLostShare}, got.Says.Is) {
			t.Errorf("%+v: %+v, %+v", c, got, value)
		}
	}
}
