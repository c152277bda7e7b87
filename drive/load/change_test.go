package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/drive/load/arrival"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record/rate"
	"github.com/meshtrial/meshtrial/study/protocol"

	"github.com/meshtrial/meshtrial/testing/must"
)

// drawPlan draws a Spec with a schedule and rate changes.
func drawPlan(t *rapid.T) (Spec, []RateChange) {
	spec := DefaultSpec("http://h/")
	spec.DurationS, spec.Seed = 5, rapid.Uint64().Draw(t, "seed")
	spec.Connections = rapid.IntRange(1, 200).Draw(t, "burst")
	spec.Arrival = rapid.SampledFrom([]string{Poisson, Uniform, Burst}).Draw(t, "arrival")
	rps := rapid.Float64Range(0, 800)
	switch rapid.IntRange(0, 2).Draw(t, "shape") {
	case 0:
		spec.Rate = rate.Rate(1 + rps.Draw(t, "rate"))
	case 1:
		spec.Rate = 0
		spec.Shape = &arrival.Shape{Kind: arrival.Ramp, FromRPS: rps.Draw(t, "from"), ToRPS: 1 + rps.Draw(t, "to"), OverS: rapid.Float64Range(0.1, 7).Draw(t, "over")}
	case 2:
		spec.Rate = 0
		spec.Shape = &arrival.Shape{Kind: arrival.Steps, Steps: []arrival.Step{
			{RateRPS: rps.Draw(t, "one"), DurationS: 1.5}, {RateRPS: 0, DurationS: 0.7}, {RateRPS: 1 + rps.Draw(t, "three"), DurationS: 1},
		}}
	}
	if rapid.Bool().Draw(t, "shared") {
		spec.Share = &Share{Index: rapid.IntRange(0, 2).Draw(t, "index"), Of: 3}
	}
	var changes []RateChange
	for range rapid.IntRange(1, 5).Draw(t, "changes") {
		rps := rps.Draw(t, "changed rate")
		if rapid.IntRange(0, 3).Draw(t, "pause") == 0 {
			rps = 0
		}
		changes = append(changes, RateChange{AtNS: rapid.Int64Range(0, 5_500_000_000).Draw(t, "at"), RPS: rps})
	}
	return spec, changes
}

// walk returns the times of all requests of a schedule.
func walk(s arrival.Schedule) []int64 {
	var out []int64
	for {
		req, ok := s.Next()
		if !ok {
			return out
		}
		out = append(out, req.Offset)
	}
}

// TestChangedSchedule checks that changes made while a cursor walks the
// schedule, at any time before they apply, give to the nanosecond the same
// requests as the same changes made before the first request, for every event
// loop.
func TestChangedSchedule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec, changes := drawPlan(t)
		threads := rapid.IntRange(1, 3).Draw(t, "threads")
		loop := rapid.IntRange(0, threads-1).Draw(t, "loop")
		schedule := func() arrival.Schedule {
			return &every{schedule: spec.schedule(), n: threads, skip: loop}
		}
		want := schedule()
		for _, c := range changes {
			want.Change(c.AtNS, c.RPS*spec.portion())
		}

		c := newCursor(schedule())
		var got []int64
		now := int64(-1)
		until := func(at int64) { // sends what is due before at
			for c.head.Offset < at {
				got = append(got, c.head.Offset)
				c.advance()
			}
			now = max(now, at-1)
		}
		for i, change := range changes {
			made := rapid.Int64Range(now, change.AtNS-1).Draw(t, fmt.Sprint("made ", i))
			until(made + 1)
			c.change(change.AtNS, change.RPS*spec.portion())
			if i+1 < len(changes) && changes[i+1].AtNS <= now {
				t.Skip("the next change comes too late")
			}
		}
		until(never)
		all := walk(want)
		for i := range all {
			if i >= len(got) || got[i] != all[i] {
				t.Fatalf("request %d of %d: %d sent, %v wanted at %d", i, len(all), len(got), got[min(i, len(got)-1):min(i+1, len(got))], all[i])
			}
		}
		if len(got) != len(all) {
			t.Fatalf("%d requests, want %d", len(got), len(all))
		}
		for i := 1; i < len(got); i++ {
			if got[i] < got[i-1] {
				t.Fatalf("request %d at %d, after %d", i, got[i], got[i-1])
			}
		}
	})
}

// TestChangedCounts checks that after changes made in order of time, every
// second of a uniform schedule holds as many requests as the rates say.
func TestChangedCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.Float64Range(1, 500).Draw(t, "rate")
		s := arrival.Uniform(arrival.Shape{Kind: arrival.Constant, RateRPS: first}, 6)
		rates := []float64{first, first, 0, 0, 0, 0}
		for second := int64(2); second < 6; second++ {
			rates[second] = rapid.Float64Range(0, 500).Draw(t, "next")
			s.Change(second*1e9, rates[second])
		}
		counts := make([]float64, 6)
		for _, at := range walk(s) {
			counts[at/1e9]++
		}
		for i := range counts {
			if math.Abs(counts[i]-rates[i]) > 1 {
				t.Fatalf("second %d: %v requests at %v rps", i, counts[i], rates[i])
			}
		}
	})
}

// startSale starts a run and changes its rate three times from an instant on,
// which it returns. The instant is later if the machine was too slow.
func startSale(t *testing.T, spec Spec) (*Running, time.Duration) {
	t.Helper()
	for lead := 400 * time.Millisecond; ; lead *= 2 {
		running := begin(t, spec)
		sale, late := running.Epoch.Add(lead), false
		for _, c := range []struct {
			rps float64
			at  time.Time
		}{{2000, sale}, {0, sale.Add(300 * time.Millisecond)}, {800, sale.Add(600 * time.Millisecond)}} {
			made, err := running.SetRate(c.rps, c.at)
			if late = errors.Is(err, ErrLate) && time.Now().After(c.at) && lead < time.Minute; late {
				break
			}
			if err != nil || made.AtNS != int64(c.at.Sub(running.Epoch)) || made.RPS != c.rps {
				t.Fatalf("%+v, %v", made, err)
			}
		}
		if !late {
			return running, lead
		}
		running.Stop()
		must.OK(t, must.Err(running.Result(context.Background())))
	}
}

// TestSetRate changes the rate of runs in progress, on every engine.
func TestSetRate(t *testing.T) {
	addr := okServer(t)
	plain := plainServer(t, func(http.ResponseWriter, *http.Request) {})
	for name, change := range map[string]func(*Spec){
		"poisson": func(s *Spec) {},
		"uniform": func(s *Spec) { s.Arrival = Uniform },
		"burst":   func(s *Spec) { s.Arrival = Burst },
		"threads": func(s *Spec) { s.Threads = 3 },
		"shared":  func(s *Spec) { s.Share = &Share{Index: 1, Of: 4} },
		"http2":   func(s *Spec) { s.URL, s.Protocol = plain.URL, protocol.HTTP2 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := quick("http://" + addr + "/")
			spec.Rate, spec.DurationS, spec.DrainS = 200, 60, 30
			change(&spec)
			running, lead := startSale(t, spec)
			sale, saleNS := running.Epoch.Add(lead), int64(lead)
			if _, err := running.SetRate(1, running.Epoch); !errors.Is(err, ErrLate) || errs.Hint(err) == "" {
				t.Errorf("a change in the past: %v", err)
			}
			time.Sleep(time.Until(sale.Add(620 * time.Millisecond)))
			now, err := running.SetRate(400, time.Time{})
			if err != nil || now.AtNS < saleNS+600e6 {
				t.Errorf("%+v, %v", now, err)
			}
			time.Sleep(200 * time.Millisecond)
			running.Stop()
			r := ended(t, running) // the times of all requests are those of the changed schedule
			if len(r.Changes) != 4 {
				t.Errorf("changes %+v", r.Changes)
			}
			w := r.Total()
			want := (200*lead.Seconds() + 2000*0.3 + 800*float64(now.AtNS-saleNS-600e6)/1e9 + 400*float64(r.EndNS-now.AtNS)/1e9) * spec.fraction()
			if d := math.Abs(float64(w.Scheduled) - want); d > 6*math.Sqrt(want)+4 || w.Completed != w.Scheduled {
				t.Errorf("%+v, the rates want %.0f requests", w.Account, want)
			}
			for req := range r.Requests.All() {
				if at := req.IntendedNS - saleNS; at >= 300e6 && at < 600e6 {
					t.Errorf("request %d at %d ns, in the pause", req.N, req.IntendedNS)
				}
			}
			if _, err := running.SetRate(1, time.Time{}); !errors.Is(err, ErrEnded) {
				t.Errorf("a change after the end: %v", err)
			}
		})
	}
}

// TestManyChanges checks that many overlapping changes lose no request.
func TestManyChanges(t *testing.T) {
	addr := okServer(t)
	spec := quick("http://" + addr + "/")
	spec.Threads, spec.DurationS = 4, 60
	running := begin(t, spec)
	made := 0
	for i := 0; ; i++ {
		at := time.Time{}
		if i%2 == 0 {
			at = time.Now().Add(time.Duration(i%7) * 50 * time.Microsecond) // many come too late
		}
		_, err := running.SetRate(float64(i%5)*500, at)
		if errors.Is(err, ErrEnded) {
			break
		}
		if err == nil {
			made++
		} else if !errors.Is(err, ErrLate) {
			t.Fatal(err)
		}
		if made == 500 {
			running.Stop()
		}
		time.Sleep(200 * time.Microsecond)
	}
	r := ended(t, running)
	if made < 10 || len(r.Changes) != made || r.Total().Completed == 0 {
		t.Errorf("%d changes made, %d in the result; %+v", made, len(r.Changes), r.Total().Account)
	}
}

func TestSetRateRefusals(t *testing.T) {
	addr := okServer(t)
	for name, tt := range map[string]struct {
		change func(*Spec)
		rps    float64
	}{
		"max":      {func(s *Spec) { s.Rate = rate.Max }, 5},
		"negative": {func(*Spec) {}, -1},
		"NaN":      {func(*Spec) {}, math.NaN()},
		"too many": {func(*Spec) {}, 1e7},
	} {
		spec := quick("http://" + addr + "/")
		spec.DurationS = 60
		tt.change(&spec)
		ctx, cancel := context.WithCancel(context.Background())
		running, err := Start(ctx, spec, nil)
		must.OK(t, err)
		if _, err := running.SetRate(tt.rps, time.Time{}); errs.Code(err) != errs.CodeUsage {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
		must.OK(t, must.Err(running.Result(context.Background())))
	}
}

// A change between Stop and the end of the run does not restore requests that
// Stop removed from the schedule.
func TestChangeOfAStoppedRun(t *testing.T) {
	r := &Running{Epoch: time.Now().Add(-time.Second), spec: quick("http://h/"), done: make(chan struct{})}
	type set struct {
		at  int64
		rps float64
	}
	var sets []set
	r.changer.set = func(at int64, rps float64) bool {
		sets = append(sets, set{at, rps})
		return true
	}
	d := &deadline{}
	d.end.Store(60e9)
	r.cut(d, func(time.Duration) int64 { return 5e9 })
	if made, err := r.changeAt(700, 3e9); err != nil || made != (RateChange{3e9, 700}) {
		t.Errorf("before the end: %+v, %v", made, err)
	}
	if _, err := r.changeAt(700, 5e9); !errors.Is(err, ErrEnded) {
		t.Errorf("at the end: %v", err)
	}
	if want := []set{{5e9, 0}, {3e9, 700}, {5e9, 0}}; !slices.Equal(sets, want) || d.end.Load() != 5e9 || len(r.changer.list()) != 1 {
		t.Errorf("sets %v, want %v; the end is %d, changes %v", sets, want, d.end.Load(), r.changer.list())
	}
}

// A stopped schedule has no request at or after its end: an event loop that
// sees the end late sends none of them.
func TestStopCutsTheSchedule(t *testing.T) {
	addr := okServer(t)
	plain := plainServer(t, func(http.ResponseWriter, *http.Request) {})
	for name, change := range map[string]func(*Spec){
		"poisson": func(s *Spec) {},
		"threads": func(s *Spec) { s.Threads = 3 },
		"http2":   func(s *Spec) { s.URL, s.Protocol = plain.URL, protocol.HTTP2 },
	} {
		t.Run(name, func(t *testing.T) {
			for range 10 {
				spec := quick("http://" + addr + "/")
				spec.Rate, spec.DurationS, spec.DrainS = 20_000, 60, 30
				change(&spec)
				running := begin(t, spec)
				time.Sleep(time.Until(running.Epoch.Add(30 * time.Millisecond)))
				running.Stop()
				r := ended(t, running)
				if r.EndNS < 30e6 || r.EndNS > 59e9 || len(r.Changes) > 0 {
					t.Errorf("end %d, changes %+v", r.EndNS, r.Changes)
				}
				if t.Failed() {
					return
				}
			}
		})
	}
}
