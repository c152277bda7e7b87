package trial

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
)

// The CPU that decides whether a trial is steady is that of its parts, without the control plane,
// whose activity is irregular.
func TestCPUShare(t *testing.T) {
	shot := func(start int64, totals map[string]uint64) observe.Snapshot {
		s := observe.Snapshot{StartNS: start, Targets: map[string]observe.Sample{}}
		for name, ns := range totals {
			s.Targets[name] = observe.Sample{CPU: observe.CPUSample{TotalNS: ns, UserNS: ns}}
		}
		return s
	}
	before := shot(1e9, map[string]uint64{record.PartWorker: 5e8, record.PartGenerator: 1e8, record.PartControl + "-0": 0})
	for _, tt := range []struct {
		name  string
		after observe.Snapshot
		want  float64
	}{
		{"two parts", shot(3e9, map[string]uint64{record.PartWorker: 1e9, record.PartGenerator: 6e8, record.PartControl + "-0": 2e9}), 0.5},
		{"idle", shot(3e9, map[string]uint64{record.PartWorker: 5e8, record.PartGenerator: 1e8, record.PartControl + "-0": 0}), 0},
		{"a part that restarted", shot(3e9, map[string]uint64{record.PartWorker: 4e8}), math.NaN()},
		{"no time between", shot(1e9, map[string]uint64{record.PartWorker: 1e9}), math.NaN()},
	} {
		if got := cpuShare(before, tt.after); math.Abs(got-tt.want) > 1e-9 || math.IsNaN(got) != math.IsNaN(tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// What keeps a trial waiting is named.
func TestDetectSteady(t *testing.T) {
	flat, rising := []float64{1, 1, 1, 1, 1, 1}, []float64{1, 2, 3, 4, 5, 6}
	if got := detectSteady(flat, flat); !got.OK {
		t.Errorf("flat: %+v", got)
	}
	if got := detectSteady(rising, flat); got.OK || !strings.HasPrefix(got.Why, "latency still ") {
		t.Errorf("latency rises: %+v", got)
	}
	if got := detectSteady(flat, rising); got.OK || !strings.HasPrefix(got.Why, "CPU still ") {
		t.Errorf("CPU rises: %+v", got)
	}
}

func TestWarmingWords(t *testing.T) {
	for _, c := range []struct {
		median, cpus float64
		want         string
	}{
		{412_345, 1.26, "warming up for 3 s: p50 412µs, 1.3 CPUs"},
		{412_345, math.NaN(), "warming up for 3 s: p50 412µs"},
		{math.NaN(), math.NaN(), "warming up for 3 s"},
	} {
		if got := warmingWords(3200*time.Millisecond, c.median, c.cpus); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
