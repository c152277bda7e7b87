package components

import (
	"debug/elf"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/meshtrial/meshtrial/testing/must"
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

// Entries that are made at the same time report one after the other.
func TestProgressIsOneAfterTheOther(t *testing.T) {
	var inside, seen atomic.Int32
	b, err := New(Options{CacheDir: t.TempDir(), Progress: func(Event) {
		seen.Add(1)
		if inside.Add(1) > 1 {
			t.Error("two at a time")
		}
		time.Sleep(time.Millisecond)
		inside.Add(-1)
	}})
	must.OK(t, err)
	var all errgroup.Group
	for i := range 3 { // of which none is pruned
		program := staticProgram(t, elf.EM_X86_64, fmt.Sprint("program ", i))
		all.Go(func() error { return must.Err(b.RolesArchive(t.Context(), program)) })
	}
	must.OK(t, all.Wait())
	if seen.Load() < 3 {
		t.Errorf("%d events", seen.Load())
	}
}
