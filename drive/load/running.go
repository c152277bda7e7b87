package load

import (
	"context"
	"sync"
	"time"
)

// Observer is told of each finished interval, in order, from one goroutine.
type Observer func(Summary)

// Run starts a run and waits for its end. When ctx is cancelled it ends at
// once with what it has; requests still out count as unfinished, and the
// error is nil. The observer may be nil.
func Run(ctx context.Context, spec Spec, observe Observer) (*Result, error) {
	running, err := start(ctx, spec, observe)
	if err != nil {
		return nil, err
	}
	return running.Result(context.Background())
}

// Start validates spec, connects, and begins a run. It returns once the
// connections are made. Cancelling ctx ends the run at once.
func Start(ctx context.Context, spec Spec) (*Running, error) {
	return start(ctx, spec, nil)
}

// Running is a run that was started. Its methods may be called from any
// goroutine.
type Running struct {
	// Epoch is the instant of offset 0, on the wall clock and the monotonic
	// one.
	Epoch time.Time

	spec     Spec
	changer  changer
	progress []progress
	done     chan struct{}
	stop     func(interval int) // stop the schedule at the end of an interval; -1 for now

	mu        sync.Mutex
	summaries []Summary
	result    *Result
	err       error
}

// Intervals returns the summaries of finished intervals from index from on.
// An interval is finished when its time is over and each of its requests
// has completed or failed.
func (r *Running) Intervals(from int) []Summary {
	r.mu.Lock()
	defer r.mu.Unlock()
	from = min(max(from, 0), len(r.summaries))
	return append([]Summary(nil), r.summaries[from:]...)
}

// IntervalsWithLatency is [Running.Intervals] with the intervals' histograms of intended
// latency.
func (r *Running) IntervalsWithLatency(from int) []Summary {
	out := r.Intervals(from)
	for i := range out {
		r.mu.Lock()
		h := r.result.Intervals[out[i].Index].Intended // is never written again
		r.mu.Unlock()
		out[i].Intended = BucketsOf(h)
	}
	return out
}

// Progress is how far a run is: counts by when it happened, not by intended
// time.
type Progress struct {
	AtNS      int64 `json:"at_ns"`     // since the run's start; before it, negative
	Sent      int64 `json:"sent"`      // requests that were begun
	Completed int64 `json:"completed"` // of those, answered well
	Failed    int64 `json:"failed"`    // of those, failed
}

// Progress returns how far the run is now. Requests out are those sent and
// neither completed nor failed.
func (r *Running) Progress() Progress {
	p := Progress{AtNS: int64(time.Since(r.Epoch))}
	for i := range r.progress {
		s := &r.progress[i]
		p.Completed += s.completed.Load()
		p.Failed += s.failed.Load()
		p.Sent += s.sent.Load() // last, so that it is not less than the others
	}
	return p
}

// Stop ends the schedule now, some milliseconds ahead so that every event loop
// hears of it in time; requests already due are still waited for, up to the
// Spec's drain time.
func (r *Running) Stop() { r.stop(-1) }

// StopAfter ends the schedule at the end of the interval with that index. If
// it is over already, the schedule ends now.
func (r *Running) StopAfter(interval int) { r.stop(max(interval, 0)) }

// Done is closed when the run has ended and its result is there.
func (r *Running) Done() <-chan struct{} { return r.done }

// Result waits for the run's end and returns what it recorded.
func (r *Running) Result(ctx context.Context) (*Result, error) {
	select {
	case <-r.done:
		return r.result, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
