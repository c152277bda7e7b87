package verdict

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/record"
)

const second = int64(1e9)

// stormSeen is a disruption at 100 s in which istiod a is killed and b takes its place: three of
// four proxies are back after 2, 4 and 5 s.
func stormSeen() *Disruption {
	at := func(s float64) int64 { return int64(s * 1e9) }
	return &Disruption{Kind: "kill", BeganNS: at(100), EndedNS: at(110), Replicas: 1, ReadyNS: at(103.5),
		Outage: xds.Outage{SinceUnixNS: at(500), LostNS: record.Times{at(500.5), at(500.5), at(500.6), at(501)}, BackNS: record.Times{at(505), at(502), record.Never, at(504)},
			Losses: 4, Ended: map[string]int64{"connection": 4, "dial": 9, "resource-exhausted": 3}, Down: record.Counted{Count: 3, Quantiles: record.QuantilesAt(0.5, 3e6, 0.99, 4.5e6, 1, 4.5e6)}},
		Looks: []Look{
			{AtNS: at(99.9), Synced: 4, Replicas: []LookReplica{{Pod: "a", Ready: true, Connections: 4, CPUNS: at(50), CPUAtNS: at(99.9), MemoryBytes: 100e6}}},
			{AtNS: at(101), Synced: 0, Replicas: []LookReplica{{Pod: "b", Connections: -1, CPUNS: at(0.22), CPUAtNS: at(101), MemoryBytes: 60e6}}},
			{AtNS: at(102), Synced: 1, Replicas: []LookReplica{{Pod: "b", Connections: -1, CPUNS: at(2.12), CPUAtNS: at(102), MemoryBytes: 150e6}}},
			{AtNS: at(104), Synced: 2, Replicas: []LookReplica{{Pod: "b", Ready: true, Connections: 2, CPUNS: at(4.12), CPUAtNS: at(104), MemoryBytes: 140e6}}},
		}}
}

func TestDisrupted(t *testing.T) {
	d := disrupted(stormSeen())
	if d.Lost != 4 || d.Back != 3 || !slices.Equal(d.RecoveredUS, record.Times{2e6, 4e6, 5e6}) || d.Losses != 4 || d.Refused != 3 || d.Failed != 9 || d.ReadyUS != 3.5e6 || d.WatchedS != 10 {
		t.Errorf("%+v", d)
	}
	if d.Without.At(0.5) != 3e6 || d.Without.At(0.99) != 4.5e6 || d.Returns != 3 {
		t.Errorf("without: %+v of %d", d.Without, d.Returns)
	}
	// The new one began after the reading before the first one of it: 1.9 s of CPU in the following
	// second are the peak. All of its CPU counts, and none of what the old one had used before.
	if math.Abs(d.CPUPeak-1.9) > 1e-9 || math.Abs(d.CPUS-4.12) > 1e-9 || d.MemoryPeakBytes != 150e6 {
		t.Errorf("peak %v, CPU %v, memory %d", d.CPUPeak, d.CPUS, d.MemoryPeakBytes)
	}
	if d.Imbalance != nil || d.BalancedUS != nil {
		t.Errorf("one replica cannot be uneven: %+v", d)
	}
	last := d.Points[3].Replicas[0]
	if len(d.Points) != 4 || !last.New || d.Points[0].Replicas[0].New || *last.Connections != 2 || d.Points[1].Replicas[0].Connections != nil || math.Abs(*last.CPUS-4.12) > 1e-9 {
		t.Errorf("%+v", d.Points)
	}
}

// An incomplete reading is no peak, and neither is what a new container used before its first
// reading, since that time is unknown. A container restarted in its pod is reported, and none of
// its CPU is lost.
func TestPeaksOfWholeLooks(t *testing.T) {
	seen := stormSeen()
	seen.Looks[1].AtNS, seen.Looks[1].Replicas[0].CPUNS = seen.Looks[0].AtNS+1000, second // by another clock
	seen.Looks[2].Incomplete = true
	if d := disrupted(seen); math.Abs(d.CPUPeak-1) > 1e-9 || d.MemoryPeakBytes != 140e6 || math.Abs(d.CPUS-4.12) > 1e-9 {
		t.Errorf("peak %v, memory %d, CPU %v", d.CPUPeak, d.MemoryPeakBytes, d.CPUS)
	}
	seen = stormSeen()
	for i, used := range []float64{0.5, 1.5} { // of another container
		r := seen.Looks[3].Replicas[0]
		r.CPUNS, r.CPUAtNS = int64(used*1e9), r.CPUAtNS+int64(i+1)*second
		seen.Looks = append(seen.Looks, Look{AtNS: r.CPUAtNS, Replicas: []LookReplica{r}})
	}
	if d := disrupted(seen); math.Abs(d.CPUPeak-1.9) > 1e-9 || math.Abs(d.CPUS-(4.12+1.5)) > 1e-9 {
		t.Errorf("anew: peak %v, CPU %v", d.CPUPeak, d.CPUS)
	}
	r := rulingOn(4)
	r.seen.Disruption = seen
	r.disruption()
	if w := r.Validity().Warnings; len(w) == 0 || !w[0].Is(noteRestarted) || w[0].Args[0] != "b" || len(w) > 1 && w[1].Is(noteRestarted) {
		t.Errorf("%q", w)
	}
}

// An istiod that was not ready to the end is reported as such.
func TestNeverReady(t *testing.T) {
	r := rulingOn(4)
	r.seen.Disruption = stormSeen()
	r.seen.Disruption.ReadyNS = NotReady
	r.disruption()
	if w := r.Validity().Warnings; r.trial.Control.Disruption.ReadyUS != NotReady || !noteNotReady.In(w) {
		t.Errorf("%d: %q", r.trial.Control.Disruption.ReadyUS, w)
	}
}

func TestBalance(t *testing.T) {
	spread := func(all ...[]int) *Disruption {
		seen := &Disruption{Kind: "scale", BeganNS: second / 2} // after the first reading
		for i, counts := range all {
			l := Look{AtNS: int64(i) * second}
			for k, n := range counts {
				l.Replicas = append(l.Replicas, LookReplica{Pod: string(rune('a' + k)), Ready: n != notReady, Connections: max(n, -1), CPUNS: -1})
			}
			seen.Looks = append(seen.Looks, l)
		}
		return seen
	}
	for name, tt := range map[string]struct {
		seen  *Disruption
		share float64 // NaN: none
		since int64   // -1: never
	}{
		"all on one":              {spread([]int{90}, []int{90, 0, 0}, []int{90, 0, 0}), 2, -1},
		"even in the end":         {spread([]int{90}, []int{90, 0, 0}, []int{60, 20, 10}, []int{36, 30, 24}, []int{30, 30, 30}), 0, 3},
		"even, and no more":       {spread([]int{30, 30, 30}, []int{90, 0, 0}), 2, -1},
		"one says nothing at all": {spread([]int{90}, []int{30, 30, -1}), math.NaN(), -1},
		"one said nothing once":   {spread([]int{90}, []int{30, 30, 30}, []int{30, -1, 30}, []int{30, 30, 30}), 0, 1},
		"one is not ready":        {spread([]int{45, 45}, []int{45, 45, notReady}), 0, 1},
		"even before and after":   {spread([]int{30, 30, 30}, []int{30, 30, 30}, []int{30, 30, 30}), 0, 1},
		"nobody for a while":      {spread([]int{30, 30, 30}, []int{30, 30, 30}, []int{0, 0, 0}, []int{30, 30, 30}), 0, 3},
		"nobody at the end":       {spread([]int{90}, []int{30, 30, 30}, []int{0, 0, 0}), math.NaN(), -1},
		"nobody is there":         {spread([]int{90}, []int{0, 0, 0}), math.NaN(), -1},
	} {
		d := disrupted(tt.seen)
		if got := d.Imbalance; (got == nil) != math.IsNaN(tt.share) || got != nil && math.Abs(*got-tt.share) > 1e-9 {
			t.Errorf("%s: %+v", name, d)
		}
		if got := d.BalancedUS; (got == nil) != (tt.since < 0) || got != nil && *got != tt.since*1e6-5e5 {
			t.Errorf("%s: even since %v, want %d", name, got, tt.since)
		}
	}
}

const notReady = -2

// A disruption that did not affect proxies, or that could not be observed, is invalid; proxies that
// do not return are reported.
func TestJudgeDisruption(t *testing.T) {
	blind := func(looks ...int) func(*Disruption) {
		return func(d *Disruption) {
			for _, i := range looks {
				d.Looks[i].Incomplete, d.Why = true, "no line"
			}
		}
	}
	for name, tt := range map[string]struct {
		edit            func(*Disruption)
		seen, disrupted bool
	}{
		"all well":       {func(*Disruption) {}, true, true},
		"one was spared": {func(d *Disruption) { d.Outage.LostNS[2] = record.Never }, true, false},
		"one was absent": {func(d *Disruption) { d.Outage.LostNS[2], d.Outage.Absent = record.Never, []int32{2} }, true, true},
		"all were absent": {func(d *Disruption) {
			d.Outage.LostNS = slices.Repeat(record.Times{record.Never}, 4)
			d.Outage.Absent = []int32{0, 1, 2, 3}
		}, true, false},
		"none was to lose": {func(d *Disruption) { d.Kind, d.Outage.LostNS[2] = "scale", record.Never }, true, true},
		"blind at the end": {blind(3), false, true},
		"blind":            {blind(0, 1, 2), false, true},
		"blind for long":   {blind(0, 1), true, true},
	} {
		r := rulingOn(4)
		r.seen.Disruption = stormSeen()
		tt.edit(r.seen.Disruption)
		r.disruption()
		got := checks(r)
		if ok, there := got["disrupted"]; got["disruption-seen"].OK != tt.seen || there && ok.OK != tt.disrupted || there == (r.seen.Disruption.Kind == "scale") || r.trial.Control.Disruption == nil {
			t.Errorf("%s: %v", name, got)
		}
		if r.seen.Disruption.Why != "" && !strings.Contains(got["disruption-seen"].Detail, "no line") {
			t.Errorf("%s: %v", name, got)
		}
		if w := r.Validity().Warnings; name == "all well" && (len(w) != 1 || !reflect.DeepEqual(w[0], noteNotRestored.Of(1, 4, 10))) {
			t.Errorf("%s: %q", name, w)
		}
	}
	r := rulingOn(4)
	if r.disruption(); len(checks(r)) > 0 || r.trial.Control.Disruption != nil {
		t.Error("a trial without one")
	}
	e := Evidence{EndNS: 1, Disruption: &Disruption{Outage: xds.Outage{LostNS: record.Times{1}}}}
	if err := e.check(record.Trial{Control: &record.Control{}}); err == nil {
		t.Error("columns of different lengths")
	}
}
