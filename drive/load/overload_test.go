package load

import (
	"fmt"
	"math"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/meshtrial/meshtrial/drive/load/arrival"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study/protocol"
	"github.com/meshtrial/meshtrial/testing/leakcheck"

	"github.com/meshtrial/meshtrial/testing/must"
)

// recording returns a recorder of a run that ends at end, and the result that receives its
// intervals.
func recording(interval, end int64) (*Result, *recorder) {
	result := &Result{Spec: DefaultSpec("http://server:80/"), EndNS: end}
	col := newCollector(1, interval, false, newEdges(interval), func(iv Interval, _ Summary) { result.Intervals = append(result.Intervals, iv) })
	rec := &recorder{interval: interval, stride: 1, done: &progress{}, fresh: newTally, deadline: &deadline{},
		seal: func(x *tally) { iv, s := col.pack(x); col.publish(iv, s) }}
	rec.deadline.end.Store(end)
	return result, rec
}

// TestOverload checks that a window's rate, and a server's CPU per request, are based on the
// requests that it answered in the window, however many more it was offered. The server
// handles one request at a time; the test controls the time.
func TestOverload(t *testing.T) {
	const (
		interval  = int64(250e6)
		serviceNS = int64(1e9) / 207 // of CPU
		warm, end = 2, 7             // the window, s
	)
	for _, offered := range []float64{0.5, 0.9, 1.05, 1.2, 1.5, 2, 5} {
		t.Run(fmt.Sprint(offered), func(t *testing.T) {
			result, rec := recording(interval, end*1e9)
			schedule := arrival.Poisson(arrival.Shape{Kind: arrival.Constant, RateRPS: 207 * offered}, end, 1)
			busy, free := int64(0), int64(0) // CPU in the window; when the server is free
			inWindow := func(at int64) int64 { return min(max(at, warm*1e9), end*1e9) }
			var out []*request
			for _, due := range walk(schedule) {
				req := &request{}
				rec.admit(req, due)
				out = append(out, req)
			}
			for _, req := range out {
				begin := max(free, req.intended)
				free = begin + serviceNS
				busy += inWindow(free) - inWindow(begin)
				rec.sent(req, begin, begin)
				rec.complete(req, free, 200)
			}
			rec.finish(end * 1e9)

			w, err := result.Window(int(warm*1e9/interval), int(end*1e9/interval))
			if err != nil || w.Within.Answered == 0 {
				t.Fatal(w, err)
			}
			got := w.Record(0)
			if truth := min(207, 207*offered); math.Abs(got.AchievedRPS/truth-1) > 0.03 && offered > 1 {
				t.Errorf("achieved %.1f rps of %.1f", got.AchievedRPS, truth)
			}
			if each := float64(busy) / float64(got.AnsweredWithin()); math.Abs(each/float64(serviceNS)-1) > 0.03 {
				t.Errorf("%.3g ms of CPU per request, want %.3g", each/1e6, float64(serviceNS)/1e6)
			}
			if got.Completed != got.Scheduled || w.Intended.TotalCount() != got.Scheduled {
				t.Errorf("%+v: latency is of the requests due in the window", w.Account)
			}
			if due := got.Scheduled + got.Within.BacklogStart - got.Within.BacklogEnd; due != got.Within.Answered {
				t.Errorf("%+v does not add up with %d scheduled", got.Within, got.Scheduled)
			}
			// An excess of a twentieth is a few dozen requests, which chance may also produce.
			if over := result.Spec.overloaded(got.Within); offered != 1.05 && over != (offered > 1) {
				t.Errorf("overloaded %v: %+v", over, got.Within)
			}
		})
	}
}

// TestLateAnswers checks, over sockets, that responses after the schedule's end count for
// latency, not for the rate; the backlog is what was due by then. The accounts of all parts of
// the run join without a gap.
func TestLateAnswers(t *testing.T) {
	leakcheck.Goroutines(t)
	const soon = 20 // answered immediately, the rest after the end
	for _, proto := range []string{protocol.HTTP1, protocol.HTTP2} {
		t.Run(proto, func(t *testing.T) {
			release := make(chan struct{})
			var n atomic.Int64
			server := plainServer(t, func(http.ResponseWriter, *http.Request) {
				if n.Add(1) > soon {
					<-release
				}
			})
			spec := quick(server.URL)
			spec.Protocol, spec.Arrival, spec.Rate, spec.DurationS = proto, Uniform, 200, 1
			running := begin(t, spec)
			reach(t, running, func(p Progress) bool { return p.AtNS > 1.01e9 })
			close(release)
			r := ended(t, running)
			w := r.Total()
			if w.Completed != 200 || w.Within != (Within{Answered: soon}) || w.BacklogEnd != 180 || w.AchievedRPS() != soon || w.DurationNS != 1e9 {
				t.Errorf("%+v within, backlog %d to %d, %v rps, %d completed", w.Within, w.BacklogStart, w.BacklogEnd, w.AchievedRPS(), w.Completed)
			}
			first, err := r.Window(0, 5)
			must.OK(t, err)
			rest, err := r.Window(5, len(r.Intervals))
			if err != nil || first.BacklogEnd != rest.BacklogStart || first.BacklogStart != 0 || first.Within.Answered+rest.Within.Answered != soon {
				t.Errorf("%v: %+v, then %+v", err, first.within(), rest.within())
			}
			rep := r.Report()
			if rep.Answered != soon || rep.Backlog != 180 || rep.AchievedRPS != soon || !strings.Contains(strings.Join(rep.Warnings, "\n"), "does not sustain this rate") {
				t.Errorf("%+v", rep)
			}
			if back := reread(t, r); !reflect.DeepEqual(back.Total().within(), w.within()) {
				t.Errorf("%+v", back.Total().within())
			}
			both, err := Merge(r, r)
			if err != nil || both.Total().within() != (record.Within{Answered: 2 * soon, BacklogEnd: 360}) {
				t.Errorf("%v: of two %+v", err, both.Total().within())
			}
		})
	}
}

// TestBacklogOfSlowTargets: a slow target that sustains the rate has a backlog from soon after
// the start. It is not overloaded, and neither is one with a rising load.
func TestBacklogOfSlowTargets(t *testing.T) {
	const interval, end = int64(250e6), int64(10e9)
	ramp := &arrival.Shape{Kind: arrival.Ramp, FromRPS: 100, ToRPS: 1000, OverS: 10}
	for _, c := range []struct {
		name    string
		shape   *arrival.Shape
		latency func(due int64) int64
		want    bool
	}{
		{"200 ms", nil, func(int64) int64 { return 200e6 }, false},
		{"2 s", nil, func(int64) int64 { return 2e9 }, false},
		{"2 s, more and more offered", ramp, func(int64) int64 { return 2e9 }, false},
		{"a tenth too much offered", nil, func(due int64) int64 { return due / 10 }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			result, rec := recording(interval, end)
			result.Spec.Shape = c.shape
			if c.shape != nil {
				result.Spec.Rate = 0
			}
			schedule := arrival.Poisson(result.Spec.shape(), float64(end)/1e9, 1)
			for _, due := range walk(schedule) {
				req := &request{}
				rec.admit(req, due)
				rec.sent(req, due, due)
				rec.complete(req, due+c.latency(due), 200)
			}
			rec.finish(end)
			if got := strings.Contains(strings.Join(result.Report().Warnings, "\n"), "does not sustain this rate"); got != c.want {
				t.Errorf("warned %v: %+v", got, result.Total().within())
			}
		})
	}
}
