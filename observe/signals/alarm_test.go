package signals

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/testing/must"
)

func TestAlarm(t *testing.T) {
	nan := math.NaN()
	over := func(n int) []float64 { return slices.Repeat([]float64{1.5}, n) }
	for _, tt := range []struct {
		name      string
		latencies []float64
		state     string
		since     float64 // -1: not above it
		fired     [][2]float64
	}{
		{"nothing seen", nil, StateUnknown, -1, nil},
		{"no observations", []float64{nan, nan}, StateUnknown, -1, nil},
		{"at the bound", []float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, StateInactive, -1, nil},
		{"over it for 9 s", over(10), StatePending, 0, nil},
		{"over it for 10 s", over(11), StateFiring, 0, [][2]float64{{10, -1}}},
		{"interrupted", slices.Concat(over(10), []float64{0.5}, over(10)), StatePending, 11, nil},
		{"interrupted by nothing observed", slices.Concat(over(8), []float64{nan}, over(3)), StatePending, 9, nil},
		{"over", slices.Concat(over(13), []float64{0.5}), StateInactive, -1, [][2]float64{{10, 13}}},
		{"twice", slices.Concat(over(11), []float64{0.5}, over(11)), StateFiring, 12, [][2]float64{{10, 11}, {22, -1}}},
		{"far over", slices.Concat([]float64{0.2}, slices.Repeat([]float64{math.Inf(1)}, 11)), StateFiring, 1, [][2]float64{{11, -1}}},
	} {
		got := newAlert(Rule{Above: 1, For: 10 * time.Second})
		for i, l := range tt.latencies {
			got.step(after(float64(i)).UnixMilli(), l)
		}
		ms := func(s float64) int64 {
			if s < 0 {
				return 0
			}
			return after(s).UnixMilli()
		}
		var want []Span
		for _, f := range tt.fired {
			want = append(want, Span{ms(f[0]), ms(f[1])})
		}
		if got.State != tt.state || got.SinceMS != ms(tt.since) || !slices.Equal(got.Fired, want) {
			t.Errorf("%s: %+v, want %s since %v, fired %v", tt.name, got, tt.state, tt.since, want)
		}
	}
}

// slowIstiod records an istiod whose pushes take 1 to 3 s from second 5 on, and
// are fast before that.
func slowIstiod(t *testing.T, seconds int) *Recorder {
	t.Helper()
	r := newRecorder(t, t.TempDir())
	fast, slow := 100, 0
	for i := range seconds + 1 {
		if i >= 5 {
			slow += 20
		} else {
			fast += 10
		}
		must.OK(t, r.AppendPage(after(float64(i)), []byte(histogram(MetricLatency, 0, bounds, fast, fast, fast+slow, fast+slow)), nil))
	}
	return r
}

func TestAlerts(t *testing.T) {
	alerts, err := Alerts(t.Context(), slowIstiod(t, 20).Source(), Options{}, after(0), after(20), time.Second)
	must.OK(t, err)
	if len(alerts) != 2 {
		t.Fatalf("%v", alerts)
	}
	// With 20 slow observations among 60 at second 5 the p99 is
	// 1 + 2*(79.2-... )/20 s, over 2 s from then on: both fire after 10 s.
	for i, severity := range []string{SeverityWarning, SeverityCritical} {
		a := alerts[i]
		if a.Severity != severity || a.State != StateFiring || a.SinceMS != after(5).UnixMilli() ||
			!slices.Equal(a.Fired, []Span{{FromMS: after(15).UnixMilli()}}) {
			t.Errorf("%+v", a)
		}
	}
}

func TestAlarmFiresOnlyAfterItsTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule := Rule{Above: 1, For: time.Duration(rapid.IntRange(0, 5).Draw(t, "for")) * time.Second}
		values := rapid.SliceOfN(rapid.SampledFrom([]float64{0.5, 1, 1.5, math.NaN()}), 0, 40).Draw(t, "values")
		a := newAlert(rule)
		for i, v := range values {
			a.step(after(float64(i)).UnixMilli(), v)
			// Firing requires being above the bound at this and every step of the
			// last For.
			over := true
			for back := 0; time.Duration(back)*time.Second <= rule.For; back++ {
				over = over && i-back >= 0 && values[i-back] > 1
			}
			if firing := a.State == StateFiring; firing != over {
				t.Fatalf("after %v of %v: firing %v", values[:i+1], rule.For, firing)
			}
		}
	})
}
