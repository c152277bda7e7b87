// Command merge measures the cost of having many generators measure as one:
//
//	100, 1000, 5000
//	          the share of a core that keeps pace with the intervals of 1,000 generators as
//	          they end, read from the streams in which a run collects them; the streams are
//	          synthetic, with this many requests per second each
//	recorded  the same with the records of real generators, each with its share of the load
//	units     the cost of one additional generator or pod: CPU and memory of the run's
//	          process (docs/scale.md multiplies these)
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/meshtrial/meshtrial/bench/internal/child"
	"github.com/meshtrial/meshtrial/bench/internal/table"
	"github.com/meshtrial/meshtrial/drive/load"
)

const (
	// most is the maximum share of a core, at the default rate of generators. The cost of a
	// merge depends on how many buckets an interval fills.
	most, usual = 0.6, 1000
	// intervals is the number of intervals in each stream, each of interval seconds, as
	// generators have by default.
	intervals = 20
	interval  = 0.25
	// different is the number of distinct streams: further ones repeat their bytes.
	different = 25
)

func main() {
	var streams, rounds int
	program := table.Program{
		Name:  "merge",
		Roles: map[string]table.Role{podsMode: servePods, child.Generator: serveGenerator},
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&streams, "streams", 1000, "generators")
			f.IntVar(&rounds, "rounds", 5, "times that all are merged")
		},
		Setup: func(context.Context) (func() error, error) {
			if streams < 1 || rounds < 1 {
				return nil, errors.New("-streams and -rounds: at least 1")
			}
			return nil, nil
		},
		Title: func() string {
			return fmt.Sprintf("%d generators' intervals of %v s, merged %d times", streams, interval, rounds)
		},
	}
	part := func(name string, do func(ctx context.Context, streams, rounds int) ([]table.Row, error)) {
		program.Parts = append(program.Parts, table.Part{Name: name, Run: func(ctx context.Context) ([]table.Row, error) { return do(ctx, streams, rounds) }})
	}
	for _, rps := range []int{100, 1000, 5000} {
		part(fmt.Sprint(rps), func(ctx context.Context, streams, rounds int) ([]table.Row, error) {
			texts, err := madeUp(rps)
			if err != nil {
				return nil, err
			}
			return merge(ctx, fmt.Sprintf("at %d rps each", rps), texts, streams, rounds, rps == usual)
		})
	}
	part("recorded", recorded)
	part("units", units)
	program.Main()
}

// merge merges the requested number of streams, repeating texts, for some rounds, and
// compares the sum with that of the texts.
func merge(ctx context.Context, name string, texts [][]byte, streams, rounds int, judged bool) ([]table.Row, error) {
	whole, sum, err := added(ctx, texts, streams)
	if err != nil {
		return nil, err
	}
	var shares, each, request, bytesEach, heap []float64
	for range rounds {
		runtime.GC()
		peak := watchHeap()
		began := used()
		open := make([]*load.Stream, streams)
		for i := range open {
			if open[i], err = load.NewStream(bytes.NewReader(texts[i%len(texts)])); err != nil {
				return nil, err
			}
			if s := open[i].Spec.Share; s != nil {
				s.Index, s.Of, s.Connections = i, streams, streams*connectionsEach // as if each had recorded its own
			}
		}
		out, err := load.MergeStreams(ctx, open, nil)
		if err != nil {
			return nil, err
		}
		cpu := used() - began
		heap = append(heap, float64(peak())/1e6)
		if w := out.Total(); w.Scheduled != sum.Scheduled || w.Completed != sum.Completed || !w.Intended.Equals(whole) || out.Spec.Share != nil {
			return nil, fmt.Errorf("%d requests were merged, of %d; a share of %v", w.Scheduled, sum.Scheduled, out.Spec.Share)
		}
		shares = append(shares, cpu/(intervals*interval))
		each = append(each, cpu/float64(streams*intervals)*1e6)
		request = append(request, cpu/float64(sum.Scheduled)*1e9)
		length := 0
		for i := range open {
			length += len(texts[i%len(texts)])
		}
		bytesEach = append(bytesEach, float64(length)/float64(streams)/(intervals*interval))
	}
	share := table.Of(name+": CPU", "cores", shares...)
	if judged {
		share = share.AtMost(most * float64(streams) / 1000)
	}
	return []table.Row{
		share,
		table.Of(name+": an interval", "us CPU", each...),
		table.Of(name+": a request", "ns CPU", request...),
		table.Of(name+": a stream", "bytes/s", bytesEach...),
		table.Of(name+": memory of all", "MB", heap...),
	}, nil
}

// added returns the sum of that many streams, reading each text separately.
func added(ctx context.Context, texts [][]byte, streams int) (*hdrhistogram.Histogram, load.Account, error) {
	whole, sum := load.NewHistogram(), load.Account{}
	for i, text := range texts {
		s, err := load.NewStream(bytes.NewReader(text))
		if err != nil {
			return nil, sum, err
		}
		if s.Count != intervals {
			return nil, sum, fmt.Errorf("stream %d has %d intervals, not %d", i, s.Count, intervals)
		}
		r, err := load.MergeStreams(ctx, []*load.Stream{s}, nil)
		if err != nil {
			return nil, sum, err
		}
		w := r.Total()
		for k := i; k < streams; k += len(texts) {
			whole.Merge(w.Intended)
			sum.Scheduled += w.Scheduled
			sum.Completed += w.Completed
		}
	}
	return whole, sum, nil
}

// watchHeap tracks how much the heap grows; the returned function ends that, and returns
// the maximum.
func watchHeap() func() uint64 {
	read := func() uint64 {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	before := read()
	most := before
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				most = max(most, read())
			case <-done:
				return
			}
		}
	}()
	return func() uint64 {
		close(done)
		<-ended
		return max(most, read()) - before
	}
}

// madeUp returns streams of what generators may have recorded at a rate.
func madeUp(rps int) ([][]byte, error) {
	texts := make([][]byte, different)
	for i := range texts {
		var text bytes.Buffer
		if err := drawn(uint64(i), rps).WriteStream(&text); err != nil {
			return nil, err
		}
		texts[i] = text.Bytes()
	}
	return texts, nil
}

// drawn returns what a generator may have recorded at a rate.
func drawn(seed uint64, rps int) *load.Result {
	random := rand.New(rand.NewPCG(seed, uint64(rps)))
	spec := load.DefaultSpec("http://server:8080/")
	spec.IntervalS, spec.DurationS = interval, intervals*interval
	r := &load.Result{Spec: spec, Replicas: 1, Start: time.Unix(1_790_000_000, 0), EndNS: int64(intervals * interval * 1e9)}
	for i := range intervals {
		empty := func() *hdrhistogram.PackedHistogram {
			h := load.NewHistogram()
			return hdrhistogram.NewPacked(h.LowestTrackableValue(), h.HighestTrackableValue(), int(h.SignificantFigures()))
		}
		iv := load.Interval{Index: i, StartNS: int64(float64(i) * interval * 1e9), DurationNS: int64(interval * 1e9),
			Intended: empty(), Send: empty(), Lag: empty(), Wait: empty(), Counts: load.Counts{Account: load.Account{Failed: map[string]int64{}}}}
		for range int(float64(rps) * interval) {
			iv.Scheduled++
			iv.Completed++
			latency := 300e3 * math.Exp(0.6*random.NormFloat64())
			lag := 5e3 * random.ExpFloat64()
			for _, v := range []struct {
				h  *hdrhistogram.PackedHistogram
				ns float64
			}{{iv.Intended, latency + lag}, {iv.Send, latency}, {iv.Lag, lag}, {iv.Wait, 0}} {
				_ = v.h.RecordValue(int64(v.ns)) // within its bounds
			}
			iv.Gaps.Add(random.ExpFloat64())
		}
		r.Intervals = append(r.Intervals, iv)
	}
	return r
}

// used returns this process's CPU time so far, in seconds.
func used() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail for the own process
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}
