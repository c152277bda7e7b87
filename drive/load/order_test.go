package load

import (
	"context"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/drive/load/arrival"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/testing/must"
	"pgregory.net/rapid"
)

// TestOrder sends and answers requests in any order, and compares gaps and pairs,
// and their intervals, with those of the complete list.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const interval, perS = 1000, 2e7 // a request every 50 ns
		var sealed []*tally
		rec := recorder{
			interval: interval, stride: 1, done: &progress{}, fresh: newTally, seal: func(x *tally) { sealed = append(sealed, x) },
			order: newOrder(&Spec{Rate: perS, Arrival: Poisson}, 1),
		}
		n := rapid.IntRange(2, 200).Draw(t, "n")
		reqs := make([]*request, n)
		lags, waits, took := make([]int64, n), make([]int64, n), make([]int64, n)
		var now, intended int64
		var open []int
		acted := make([]int64, n)
		for i := range reqs {
			intended += rapid.Int64Range(1, 120).Draw(t, "gap")
			reqs[i] = &request{}
			lags[i], waits[i] = rapid.Int64Range(0, 60).Draw(t, "lag"), rapid.Int64Range(0, 200).Draw(t, "wait")
			rec.admit(reqs[i], intended)
			reqs[i].rate = perS
			now = max(now, intended+waits[i]+lags[i])
			free := now - lags[i]
			rec.sent(reqs[i], free, now)
			acted[i] = now - max(0, free-intended)
			if i > 0 {
				acted[i] = max(acted[i], acted[i-1])
			}
			open = append(open, i)
			for len(open) > 0 && rapid.Bool().Draw(t, "answer") {
				at := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				k := open[at]
				open = append(open[:at], open[at+1:]...)
				if rapid.IntRange(0, 9).Draw(t, "fails") == 0 {
					rec.fail(reqs[k], failReset, now, 0)
					continue
				}
				took[k] = now - reqs[k].intended + 1
				rec.complete(reqs[k], now+1, 200)
			}
			rec.sealUpTo(intended)
		}
		for _, k := range open {
			rec.abandon(reqs[k])
		}
		rec.finish(intended + 1)
		gaps, pairs := map[int]*arrival.Gaps{}, map[int]*stat.Serial{}
		for i := range sealed {
			gaps[i], pairs[i] = &arrival.Gaps{}, &stat.Serial{}
		}
		for i := 1; i < n; i++ {
			k := int(reqs[i].intended / interval)
			gaps[k].Add(float64(acted[i]-acted[i-1]) * perS / 1e9)
			if took[i] > 0 && took[i-1] > 0 {
				pairs[k].N++
			}
		}
		for i, got := range sealed {
			if got.gaps.Count != gaps[i].Count || math.Abs(got.gaps.Sum-gaps[i].Sum) > 1e-9*gaps[i].Sum {
				t.Fatalf("interval %d: gaps %+v, want %+v", i, got.gaps, *gaps[i])
			}
			if got.serial.N != pairs[i].N {
				t.Fatalf("interval %d: %d pairs, want %d", i, got.serial.N, pairs[i].N)
			}
		}
	})
}

// A slow target is not the generator's fault: requests wait ever longer for a
// connection, but gaps are those of the schedule. A generator that stalls is late
// for all requests that became due meanwhile, however long they then wait.
func TestOrderOfSlowTarget(t *testing.T) {
	const gap, n = 1_000_000, 1000
	for name, tt := range map[string]struct {
		sent   func(i, intended int64) (free, now int64)
		ratio  float64
		uneven float64
	}{
		"in time": {func(_, intended int64) (int64, int64) { return 0, intended }, 1, 0},
		"waits":   {func(i, intended int64) (int64, int64) { return intended + i*9*gap, intended + i*9*gap }, 1, 0},
		// All of the second half become due during the stall. Except for the first
		// four they find every connection busy.
		"stands still": {func(i, intended int64) (int64, int64) {
			const end = n * gap
			switch {
			case i < n/2:
				return 0, intended
			case i < n/2+4:
				return 0, end
			}
			return end + i*gap, end + i*gap
		}, 0.999, 0.998},
	} {
		var done []*tally
		rec := recorder{
			interval: n * gap, stride: 1, done: &progress{}, fresh: newTally, seal: func(x *tally) { done = append(done, x) },
			order: newOrder(&Spec{Rate: 1e9 / gap, Arrival: Uniform}, 1),
		}
		for i := range int64(n) {
			req := &request{}
			rec.admit(req, i*gap)
			req.rate = 1e9 / gap
			free, now := tt.sent(i, i*gap)
			rec.sent(req, free, now)
			rec.abandon(req)
		}
		rec.finish(n * gap)
		g := &done[0].gaps
		if g.N != n-1 || math.Abs(g.RateRatio()-tt.ratio) > 0.01 || math.Abs(g.MeanOff()-tt.uneven) > 0.01 {
			t.Errorf("%s: %d gaps, %.3f of the rate, off by %.3f", name, g.N, g.RateRatio(), g.MeanOff())
		}
	}
}

// However many requests are in flight, and however late they end, no gap between
// sent requests is lost, including those between rounds of large bursts.
func TestOrderOfManyInFlight(t *testing.T) {
	const n, gap = 4 * orderSpan, 1000
	for _, tt := range []struct {
		arrival string
		round   int64 // requests that are due together
		gaps    int64
	}{{Uniform, 1, n - 1}, {Burst, 2 * orderSpan, 0}} {
		o := newOrder(&Spec{Rate: 1e6, Arrival: tt.arrival, Connections: int(tt.round)}, 1)
		sum := newTally()
		for i := range int64(n) {
			due := i / tt.round * tt.round * gap
			o.acted(&request{n: i, intended: due, rate: 1e6, tally: sum}, due)
			if late := i - orderSpan; late >= 0 {
				o.took(&request{n: late, intended: late / tt.round * tt.round * gap, rate: 1e6, tally: sum}, 1)
			}
		}
		if want := tt.gaps; tt.arrival == Uniform && sum.gaps.N != want {
			t.Errorf("%s: %d gaps, want %d", tt.arrival, sum.gaps.N, want)
		}
		if last := o.marks[n%orderSpan]; last.place != n || !last.sent {
			t.Errorf("%s: the last request's mark is %+v", tt.arrival, last)
		}
	}
}

// Gaps of windows add up to those of the run, also for a stored result.
func TestScheduleOfRuns(t *testing.T) {
	slow := tcpServer(t, answering(func(int64) string {
		time.Sleep(5 * time.Millisecond)
		return "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	}))
	for _, arrivals := range []string{Poisson, Uniform, Burst} {
		for _, threads := range []int{1, 2} {
			spec := DefaultSpec("http://" + slow + "/")
			spec.Connections, spec.Threads, spec.Rate, spec.Arrival = 4, threads, 2000, arrivals
			spec.DurationS, spec.IntervalS, spec.DrainS = 0.3, 0.05, 0
			r, err := Run(context.Background(), spec, nil)
			must.OK(t, err)
			w := r.Total()
			s := w.Schedule()
			if s == nil || s.Process != arrivals || s.Gaps == 0 {
				t.Fatalf("%s, %d threads: %+v", arrivals, threads, s)
			}
			back := reread(t, r)
			first, err := back.Window(0, 3)
			must.OK(t, err)
			rest, err := back.Window(3, len(back.Intervals))
			must.OK(t, err)
			first.Gaps.Merge(&rest.Gaps)
			first.Serial.Merge(&rest.Serial)
			if first.Gaps.Count != w.Gaps.Count || first.Serial.N != w.Serial.N || math.Abs(first.Gaps.Sum-w.Gaps.Sum) > 1e-6*w.Gaps.Sum {
				t.Errorf("%s, %d threads: windows have %+v, the whole %+v", arrivals, threads, first.Gaps, w.Gaps)
			}
			if again := back.Total().Schedule(); !reflect.DeepEqual(again, s) {
				t.Errorf("%s, %d threads: reread %+v, before %+v", arrivals, threads, again, s)
			}
		}
	}
}
