package load

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Observer receives each finished interval, in order, from one goroutine.
type Observer func(Summary)

// Run starts a run and waits for its end. When ctx is cancelled it ends immediately with
// the results so far: requests in flight count as unfinished, and the error is nil. The
// observer may be nil.
func Run(ctx context.Context, spec Spec, observe Observer) (*Result, error) {
	running, err := Start(ctx, spec, observe)
	if err != nil {
		return nil, err
	}
	return running.Result(context.Background())
}

// Running is a started run. Its methods are safe for concurrent use.
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

// Intervals returns the summaries of finished intervals from index from on. An interval
// is finished when its time is over and each of its requests has completed or failed.
func (r *Running) Intervals(from int) []Summary {
	r.mu.Lock()
	defer r.mu.Unlock()
	from = min(max(from, 0), len(r.summaries))
	return slices.Clone(r.summaries[from:])
}

// IntervalsWithLatency is [Running.Intervals] with the intervals' histograms of intended
// latency.
func (r *Running) IntervalsWithLatency(from int) []Summary {
	out := r.Intervals(from)
	for i := range out {
		r.mu.Lock()
		h := r.result.Intervals[out[i].Index].Intended // never written again
		r.mu.Unlock()
		out[i].Intended = BucketsOf(h)
	}
	return out
}

// Progress counts events by when they happened, not by intended time.
type Progress struct {
	AtNS      int64 `json:"at_ns"` // since the run's start; before it, negative
	Sent      int64 `json:"sent"`
	Completed int64 `json:"completed"` // of those sent
	Failed    int64 `json:"failed"`    // of those sent
}

// Progress returns the current progress of the run. Requests in flight are sent, but
// neither completed nor failed.
func (r *Running) Progress() Progress {
	p := Progress{AtNS: int64(time.Since(r.Epoch))}
	for i := range r.progress {
		s := &r.progress[i]
		p.Completed += s.completed.Load()
		p.Failed += s.failed.Load()
		p.Sent += s.sent.Load() // read last, so that it is not less than the others
	}
	return p
}

// Stop ends the schedule some milliseconds from now, so that every event loop sees the
// end in time. Requests already due are still awaited, up to the Spec's drain time.
func (r *Running) Stop() { r.stop(-1) }

// StopAfter ends the schedule at the end of an interval, or now if that is over.
func (r *Running) StopAfter(interval int) { r.stop(max(interval, 0)) }

// Done returns a channel that is closed when the run has ended and its result is
// available.
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
