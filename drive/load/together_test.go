package load

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/record/rate"
	"github.com/meshtrial/meshtrial/study/protocol"
	"github.com/meshtrial/meshtrial/testing/leakcheck"
)

// TestStartTogether checks that several generators begin at the same instant,
// regardless of the order of requests, and stay in step; a start in the past is
// rejected.
func TestStartTogether(t *testing.T) {
	leakcheck.Goroutines(t)
	addr := okServer(t)
	plain := plainServer(t, func(http.ResponseWriter, *http.Request) {})
	at, ahead := time.Time{}, time.Second
	var late atomic.Bool
	together := func(i int) {
		spec := quick("http://" + addr + "/")
		if i == 2 {
			spec.URL, spec.Protocol = plain.URL, protocol.HTTP2
		}
		spec.StartAtUnixNS, spec.Arrival, spec.Share = at.UnixNano(), Uniform, &Share{Index: i, Of: 3}
		r, err := Run(context.Background(), spec, nil)
		if err != nil && strings.Contains(err.Error(), "before the connections") && time.Now().After(at) && ahead < time.Minute {
			late.Store(true) // the machine stalled
			return
		}
		if err != nil {
			t.Error(err)
			return
		}
		checkResult(t, r)
		if !r.Start.Equal(time.Unix(0, at.UnixNano())) {
			t.Errorf("started at %v, not at %v", r.Start, at)
		}
		for req := range r.Requests.All() {
			if k := req.N*3 + int64(i); req.IntendedNS != k*2_500_000 {
				t.Errorf("generator %d: request %d at %d ns; all together are not uniform", i, req.N, req.IntendedNS)
			}
		}
		if w := r.Total(); w.Completed != w.Scheduled {
			t.Errorf("%+v", w.Account)
		}
	}
	for again := true; again; ahead *= 2 {
		at = time.Now().Add(ahead)
		late.Store(false)
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() { together(i) })
		}
		all.Wait()
		again = late.Load()
	}

	spec := quick("http://" + addr + "/")
	spec.StartAtUnixNS = time.Now().UnixNano()
	if _, err := Start(context.Background(), spec, nil); err == nil || !strings.Contains(err.Error(), "ago, before the connections") {
		t.Errorf("a start in the past: %v", err)
	}
	spec.StartAtUnixNS = time.Now().Add(24 * time.Hour).UnixNano()
	if _, err := Start(context.Background(), spec, nil); err == nil || !strings.Contains(err.Error(), "ahead, more than") {
		t.Errorf("a start tomorrow: %v", err)
	}
	for _, asked := range []rate.Rate{400, rate.Max} {
		for _, speaks := range []string{protocol.HTTP1, protocol.HTTP2} {
			spec := quick(plain.URL)
			spec.Protocol, spec.Rate = speaks, asked
			spec.StartAtUnixNS = time.Now().Add(time.Minute).UnixNano()
			running := begin(t, spec)
			if p := running.Progress(); p.AtNS > -50e9 || p.Sent != 0 {
				t.Errorf("a minute before the start: %+v", p)
			}
			running.Stop()
			r, err := running.Result(context.Background())
			if err != nil || r.Total().Scheduled != 0 || r.EndNS != 0 || r.Report().Valid {
				t.Errorf("%s at %v, stopped before its start: %+v, %v", speaks, asked, r.Total().Account, err)
			}
		}
	}
}

// TestShare checks that generators that share a rate have different seeds, and
// together send the rate.
func TestShare(t *testing.T) {
	total := 0
	firsts := map[int64]bool{}
	for i := range 10 {
		spec := DefaultSpec("http://h/")
		spec.Rate, spec.DurationS, spec.Share = 1000, 20, &Share{Index: i, Of: 10}
		times := walk(spec.schedule())
		total += len(times)
		firsts[times[0]] = true
	}
	if len(firsts) != 10 || total < 19_300 || total > 20_700 { // 5 standard deviations
		t.Errorf("%d requests in 20 s at 1000 rps; %d different first ones", total, len(firsts))
	}
}
