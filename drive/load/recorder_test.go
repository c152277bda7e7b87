package load

import (
	"math"
	"slices"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
	"pgregory.net/rapid"
)

// TestRecorder drives the recorder with a random history under a simulated
// clock, and compares it with a list of the events.
func TestRecorder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const interval = 100
		var sealed []*tally
		rec := recorder{interval: interval, stride: 1, done: &progress{}, fresh: newTally, seal: func(x *tally) { sealed = append(sealed, x) }}
		var out []*request
		want := map[int][4]int64{} // scheduled, completed, failed, unfinished
		within := map[int]Within{} // by when they ended
		latency := map[int][]int64{}
		now := int64(0)
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			now += rapid.Int64Range(0, 80).Draw(t, "gap")
			if len(out) == 0 || rapid.Bool().Draw(t, "send") {
				req := &request{}
				rec.admit(req, now)
				free := rapid.Int64Range(0, now).Draw(t, "free")
				rec.sent(req, free, now)
				out = append(out, req)
				w := want[int(now/interval)]
				w[0]++
				want[int(now/interval)] = w
			} else {
				i := rapid.IntRange(0, len(out)-1).Draw(t, "which")
				req := out[i]
				out = slices.Delete(out, i, i+1)
				k := int(req.intended / interval)
				w, ended := want[k], within[int(now/interval)]
				if rapid.Bool().Draw(t, "ok") {
					rec.complete(req, now, 200)
					w[1]++
					ended.Answered++
					latency[k] = append(latency[k], now-req.intended)
				} else {
					rec.fail(req, failReset, now, 0)
					w[2]++
					ended.Failed++
				}
				want[k], within[int(now/interval)] = w, ended
			}
			rec.sealUpTo(now)
		}
		for _, req := range out {
			k := int(req.intended / interval)
			w := want[k]
			w[3]++
			want[k] = w
			rec.abandon(req)
		}
		end := now + rapid.Int64Range(1, 300).Draw(t, "rest")
		rec.missed(end - 1)
		w := want[int((end-1)/interval)]
		w[0]++
		w[3]++
		want[int((end-1)/interval)] = w
		rec.finish(end)

		if rec.inFlight != 0 {
			t.Fatalf("%d in flight at the end", rec.inFlight)
		}
		if n := int((end + interval - 1) / interval); len(sealed) != n {
			t.Fatalf("%d intervals, want %d", len(sealed), n)
		}
		for i, got := range sealed {
			if got.index != i {
				t.Fatalf("interval %d at place %d", got.index, i)
			}
			if got.Within != within[i] {
				t.Fatalf("interval %d: %+v ended within it, want %+v", i, got.Within, within[i])
			}
			if g := [4]int64{got.Scheduled, got.Completed, got.failed[failReset], got.Unfinished}; g != want[i] {
				t.Fatalf("interval %d: %v, want %v", i, g, want[i])
			}
			if got.Scheduled != got.Completed+got.failed[failReset]+got.Unfinished {
				t.Fatalf("interval %d does not balance", i)
			}
			slices.Sort(latency[i])
			if h, n := got.intended.pack(), len(latency[i]); n > 0 && (h.TotalCount() != int64(n) || h.Max() != latency[i][n-1]) {
				t.Fatalf("interval %d: %d latencies up to %d, want %v", i, h.TotalCount(), h.Max(), latency[i])
			}
		}
	})
}

// TestHistogramError checks that a percentile read from a histogram is within
// 0.1% of the exact one.
func TestHistogramError(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 500).Draw(t, "n")
		values := make([]int64, n)
		tl := newTally()
		for i := range values {
			magnitude := rapid.Float64Range(0, math.Log(histHighest)).Draw(t, "log")
			values[i] = min(int64(math.Exp(magnitude)), histHighest)
			tl.record(&tl.intended, values[i])
		}
		slices.Sort(values)
		for _, p := range []float64{1, 50, 90, 99, 99.9, 100} {
			// HdrHistogram rounds the rank to the nearest.
			rank := min(max(1, int(p/100*float64(n)+0.5)), n)
			exact := float64(values[rank-1])
			if got := quantile(tl.intended.pack(), p); math.Abs(got-exact) > 0.001*exact {
				t.Fatalf("p%v: %v, exact %v", p, got, exact)
			}
		}
	})
}

// However many values an interval has, and whichever shard they came from, its
// histogram has each of them once, however often it is read. The next
// interval's starts without them.
func TestDurations(t *testing.T) {
	tallies := []*tally{newTally(), newTally()}
	rapid.Check(t, func(t *rapid.T) {
		want := newPacked()
		for round := range 2 {
			want.Reset()
			for _, tl := range tallies {
				tl.reset()
				step := rapid.Int64Range(1, histHighest/(3*fewDurations)).Draw(t, "step")
				for i := range rapid.Int64Range(0, 3*fewDurations).Draw(t, "values") {
					ns := i * step * 7919 % histHighest
					tl.record(&tl.intended, ns)
					_ = want.RecordValue(ns)
				}
			}
			tallies[0].add(tallies[1])
			for range 2 {
				if got := tallies[0].intended.pack(); !slices.Equal(buckets(got), buckets(want)) {
					t.Fatalf("round %d: %d values up to %d, want %d up to %d", round, got.TotalCount(), got.Max(), want.TotalCount(), want.Max())
				}
			}
		}
	})
}

// buckets returns the values and counts of a histogram.
func buckets(h *hdrhistogram.PackedHistogram) (out [][2]int64) {
	h.ForEachBucket(func(value, count int64) bool {
		out = append(out, [2]int64{value, count})
		return true
	})
	return out
}

func TestClamping(t *testing.T) {
	tl := newTally()
	tl.record(&tl.intended, 3*histHighest)
	tl.record(&tl.intended, -5)
	h := tl.intended.pack()
	if tl.Clamped != 1 || h.TotalCount() != 2 {
		t.Errorf("clamped %d of %d", tl.Clamped, h.TotalCount())
	}
	if got := float64(h.Max()); math.Abs(got-histHighest) > 0.001*histHighest {
		t.Errorf("max %v", got)
	}
}

func TestFIFOAndList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "connections")
		conns := make([]conn, n)
		queue, waiting := newFIFO(n), newList()
		var wantQueue, wantList []int32
		for i := range conns {
			conns[i].id = int32(i)
			queue.push(int32(i))
			wantQueue = append(wantQueue, int32(i))
		}
		for range rapid.IntRange(0, 100).Draw(t, "steps") {
			if len(wantQueue) > 0 && rapid.Bool().Draw(t, "pop") {
				id := queue.pop()
				if id != wantQueue[0] {
					t.Fatalf("popped %d, want %d", id, wantQueue[0])
				}
				wantQueue = wantQueue[1:]
				waiting.push(conns, id)
				wantList = append(wantList, id)
			} else if len(wantList) > 0 {
				i := rapid.IntRange(0, len(wantList)-1).Draw(t, "which")
				id := wantList[i]
				wantList = slices.Delete(wantList, i, i+1)
				waiting.remove(conns, id)
				queue.push(id)
				wantQueue = append(wantQueue, id)
			}
			var got []int32
			for id := waiting.first; id != none; id = conns[id].next {
				got = append(got, id)
			}
			if !slices.Equal(got, wantList) || queue.n != len(wantQueue) {
				t.Fatalf("list %v, want %v; queue %d, want %d", got, wantList, queue.n, len(wantQueue))
			}
		}
	})
}

func TestEdges(t *testing.T) {
	e := &edges{interval: 10, at: []CPU{{}}}
	e.fill(2, CPU{User: 4, System: 2}) // edge 1 was missed
	e.fill(3, CPU{User: 5, System: 2})
	for k, want := range []CPU{{2, 1}, {2, 1}, {1, 0}, {}} {
		if got := e.between(k); got != want {
			t.Errorf("interval %d: %v, want %v", k, got, want)
		}
	}
}

func TestCollectorAddsShards(t *testing.T) {
	var got []Interval
	c := newCollector(2, 100, false, &edges{interval: 100, at: make([]CPU, 10)}, func(iv Interval, s Summary) { got = append(got, iv) })
	for _, shard := range [][]int{{0, 1, 2}, {0, 1}} { // one shard continued alone
		for _, i := range shard {
			x := c.fresh()
			x.index, x.Scheduled, x.Completed = i, 2, 1
			x.failed[failEOF] = 1
			x.record(&x.intended, int64(50+i))
			c.seal(x)
		}
	}
	close(c.sealed)
	c.run()
	if len(got) != 3 {
		t.Fatalf("%d intervals, want 3", len(got))
	}
	for i, iv := range got {
		shards := int64(2)
		if i == 2 {
			shards = 1
		}
		if iv.Index != i || iv.Scheduled != 2*shards || iv.Failed[FailEOF] != shards || !iv.Balanced() || iv.Intended.CountAtValue(int64(50+i)) != shards {
			t.Errorf("interval %d: %+v", i, iv)
		}
	}
}

func count(h *hdrhistogram.PackedHistogram) int64 { return h.TotalCount() }
