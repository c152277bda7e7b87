package components

import (
	"testing"
	"time"
)

func TestTimeLeft(t *testing.T) {
	m := newMeter(nil)
	m.expect("a", 100)
	m.expect("b", 300)
	check := func(elapsed, low, high time.Duration) {
		t.Helper()
		if got := m.left(elapsed); got < low || got > high {
			t.Errorf("after %s: %s left, want %s to %s", elapsed, got, low, high)
		}
	}
	check(0, 400*time.Second, 400*time.Second) // only the weights are known
	m.work["a"].done = 1
	check(100*time.Second, 300*time.Second, 300*time.Second) // as fast as expected
	check(200*time.Second, 600*time.Second, 600*time.Second) // half as fast
	check(50*time.Second, 150*time.Second, 150*time.Second)  // twice as fast
	m.work["a"].done = 0.04                                  // 1% of the work
	check(40*time.Second, 400*time.Second, 800*time.Second)  // too early to conclude that it takes ten times as long
	m.work["a"].done, m.work["b"].done = 1, 1
	check(time.Hour, 0, 0)
}

func TestMeterSaysNotTooMuch(t *testing.T) {
	var events []Event
	m := newMeter(func(e Event) { events = append(events, e) })
	m.expect("a", 10)
	for i := range 1000 {
		m.step("a", PhaseBuild, float64(i)/1000, "package")
	}
	m.note("a", "by the way")
	m.finish("a")
	if n := len(events); n < 3 || n > 100 || events[0].Phase != PhaseBuild || events[n-2].Phase != PhaseNote || events[n-1].Phase != PhaseReady {
		t.Errorf("%d events, the last %+v", n, events[max(0, n-2):])
	}
}
