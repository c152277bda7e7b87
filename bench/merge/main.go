// Command merge measures what it takes to add up what 1,000 generators recorded: the
// share of a core that keeps pace with all of their intervals as they end, read from
// the streams in which a run collects them.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/meshtrial/meshtrial/bench/internal/table"
	"github.com/meshtrial/meshtrial/load"
)

const (
	// most is the share of a core that it may take, at the rate that generators have
	// by default. What a merge takes goes by how many buckets an interval fills.
	most, usual = 0.6, 1000
	// intervals are those of each stream, each of interval seconds, as generators
	// have by default.
	intervals = 20
	interval  = 0.25
	// different is how many streams differ: others are the same bytes again.
	different = 25
)

func main() { os.Exit(table.Main("bench merge", run)) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("merge", flag.ContinueOnError)
	flags.SetOutput(stderr)
	streams := flags.Int("streams", 1000, "generators")
	rounds := flags.Int("rounds", 5, "times that all are merged")
	jsonFile := flags.String("json", "", "also write the results to this file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var parts []table.Part
	only := ""
	for _, rps := range []int{100, 1000, 5000} {
		name := fmt.Sprint(rps)
		parts = append(parts, table.Part{Name: name, Run: func(ctx context.Context) ([]table.Row, error) { return merge(ctx, *streams, *rounds, rps) }})
		if only != "" {
			only += ","
		}
		only += name
	}
	rows, err := table.Run(ctx, only, parts)
	title := fmt.Sprintf("%d generators' intervals of %v s, merged %d times", *streams, interval, *rounds)
	return table.Report(stdout, title, rows, err, *jsonFile, struct {
		Schema  int         `json:"schema"`
		Results []table.Row `json:"results"`
	}{1, rows})
}

// merge merges the streams of so many generators at a rate each.
func merge(ctx context.Context, streams, rounds, rps int) ([]table.Row, error) {
	texts := make([][]byte, different)
	whole, scheduled := load.NewHistogram(), int64(0)
	for i := range texts {
		r := recorded(uint64(i), rps)
		var text bytes.Buffer
		if err := r.WriteStream(&text); err != nil {
			return nil, err
		}
		texts[i] = text.Bytes()
		for k := i; k < streams; k += different {
			w := r.Total()
			whole.Merge(w.Intended)
			scheduled += w.Scheduled
		}
	}
	var shares, each, bytesEach []float64
	for range rounds {
		began := used()
		open := make([]*load.Stream, streams)
		for i := range open {
			var err error
			if open[i], err = load.NewStream(bytes.NewReader(texts[i%different])); err != nil {
				return nil, err
			}
		}
		out, err := load.MergeStreams(ctx, open, nil)
		if err != nil {
			return nil, err
		}
		cpu := used() - began
		if w := out.Total(); w.Scheduled != scheduled || !w.Intended.Equals(whole) {
			return nil, fmt.Errorf("%d requests were merged, of %d", w.Scheduled, scheduled)
		}
		shares = append(shares, cpu/(intervals*interval))
		each = append(each, cpu/float64(streams*intervals)*1e6)
		bytesEach = append(bytesEach, float64(len(texts[0]))/intervals)
	}
	at := fmt.Sprintf("at %d rps each", rps)
	share := table.Of(at+": CPU", "cores", shares...)
	if rps == usual {
		share = share.AtMost(most * float64(streams) / 1000)
	}
	return []table.Row{
		share,
		table.Of(at+": an interval", "us CPU", each...),
		table.Of(at+": an interval", "bytes", bytesEach...),
	}, nil
}

// recorded is what a generator may have recorded at a rate.
func recorded(seed uint64, rps int) *load.Result {
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
			Intended: empty(), Send: empty(), Lag: empty(), Wait: empty(), Account: load.Account{Failed: map[string]int64{}}}
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

// used is this process's CPU time so far, in seconds.
func used() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // never fails for oneself
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}
