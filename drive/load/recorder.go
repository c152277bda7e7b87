package load

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/meshtrial/meshtrial/drive/load/arrival"
	"github.com/meshtrial/meshtrial/stat"
)

// failure is an index into kinds.
type failure uint8

const (
	failConnect failure = iota
	failTimeout
	failReset
	failEOF
	failProtocol
	failStatus
	failTLS
	failStream
	failOther
)

// classify returns the kind of failure of a network error.
func classify(err error) failure {
	var errno syscall.Errno
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return failTimeout
	case errors.As(err, &errno):
		switch errno {
		case syscall.ECONNRESET:
			return failReset
		case syscall.EPIPE: // written after the peer had closed
			return failEOF
		case syscall.ETIMEDOUT:
			return failTimeout
		}
	}
	return failOther
}

// tally counts one interval of one shard (an event loop, or the pool). The shard owns it
// until it is sealed, then the collector does.
type tally struct {
	index       int
	end         int64 // ns
	outstanding int64
	Counts      // except Failed; see failed
	failed      [len(kinds)]int64

	intended, send, lag, wait durations

	gaps   arrival.Gaps
	serial stat.Serial
}

func newTally() *tally {
	return &tally{intended: newDurations(), send: newDurations(), lag: newDurations(), wait: newDurations()}
}

func (t *tally) reset() {
	for _, d := range []*durations{&t.intended, &t.send, &t.lag, &t.wait} {
		d.reset()
	}
	*t = tally{intended: t.intended, send: t.send, lag: t.lag, wait: t.wait}
}

// record adds ns to d. Values above the range are counted and recorded as its end.
func (t *tally) record(d *durations, ns int64) {
	if ns > histHighest {
		t.Clamped++
		ns = histHighest
	}
	d.add(max(ns, 0))
}

// request is a scheduled request in flight.
type request struct {
	n        int64     // number in the run
	entry    *logEntry // nil without a log
	intended int64
	rate     float64 // of the schedule, in requests per second; 0: none
	sent     int64
	tally    *tally
}

// recorder counts a shard's events by the interval of the intended time. It is not safe for
// concurrent use.
type recorder struct {
	interval int64
	closed   bool     // rate max: intended and sent are the same
	open     []*tally // of intervals first, first+1, ...
	first    int
	inFlight int
	deadline *deadline    // nil: the schedule has no end
	late     Within       // requests that ended after the schedule, outside all intervals
	seal     func(*tally) // takes ownership of a finished tally
	fresh    func() *tally
	last     *tally // cache of at

	n, stride int64     // number of the next request, and of the one after it
	log       *shardLog // nil: none
	order     *order    // nil: at rate max
	done      *progress
}

// progress counts requests as they are sent and end, for other threads to read. It fills a
// cache line so that shards do not share one.
type progress struct {
	sent, completed, failed atomic.Int64
	_                       [5]int64
}

// at returns the tally of the interval of ns.
func (r *recorder) at(ns int64) *tally {
	if t := r.last; t != nil && ns < t.end && ns >= t.end-r.interval {
		return t
	}
	i := max(int(ns/r.interval)-r.first, 0)
	for len(r.open) <= i {
		t := r.fresh()
		t.index = r.first + len(r.open)
		t.end = int64(t.index+1) * r.interval
		r.open = append(r.open, t)
	}
	r.last = r.open[i]
	return r.last
}

// admit counts a request that is about to be sent.
func (r *recorder) admit(req *request, intended int64) {
	t := r.at(intended)
	req.intended, req.rate, req.tally, req.entry = intended, 0, t, nil
	req.n = r.n
	r.n += r.stride
	if r.log != nil {
		req.entry = r.log.add(intended)
	}
	t.Scheduled++
	t.outstanding++
	r.inFlight++
	t.MaxInFlight = max(t.MaxInFlight, r.inFlight)
}

// sent records when an admitted request was sent, and since when a connection was free.
func (r *recorder) sent(req *request, free, now int64) {
	req.sent = now
	if e := req.entry; e != nil {
		e.sent = now
	}
	r.done.sent.Add(1)
	if !r.closed {
		t := req.tally
		t.record(&t.lag, now-max(req.intended, free))
		t.record(&t.wait, free-req.intended)
		if r.order != nil {
			r.order.acted(req, now-max(0, free-req.intended))
		}
	}
}

// within returns the counts of the interval that contains now. No request ends before it is
// due, so that interval is not sealed yet.
func (r *recorder) within(now int64) *Within {
	if r.deadline != nil && now >= r.deadline.end.Load() {
		return &r.late
	}
	return &r.at(now).Within
}

// counts returns the counts of the interval that contains now; nil after the end of the schedule.
func (r *recorder) counts(now int64) *Counts {
	if r.deadline != nil && now >= r.deadline.end.Load() {
		return nil
	}
	return &r.at(max(now, 0)).Counts
}

// complete records a complete response and its status at time now.
func (r *recorder) complete(req *request, now int64, status int) {
	req.end(entryOK, now, status)
	r.done.completed.Add(1)
	r.within(now).Answered++
	t := req.tally
	t.Completed++
	t.outstanding--
	t.record(&t.intended, now-req.intended)
	if !r.closed {
		t.record(&t.send, now-req.sent)
		if r.order != nil {
			r.order.took(req, now-req.intended)
		}
	}
	r.inFlight--
}

// end logs how a request ended.
func (req *request) end(outcome uint8, now int64, status int) {
	if e := req.entry; e != nil {
		e.done, e.outcome, e.status = now, outcome, uint16(status)
	}
}

// fail records that a request failed at time now; status is that of a complete response, else
// 0.
func (r *recorder) fail(req *request, kind failure, now int64, status int) {
	req.end(entryBad+uint8(kind), now, status)
	r.done.failed.Add(1)
	r.within(now).Failed++
	req.tally.failed[kind]++
	req.tally.outstanding--
	r.inFlight--
}

// abandon records a request that is in flight at the end.
func (r *recorder) abandon(req *request) {
	req.tally.Unfinished++
	req.tally.outstanding--
	r.inFlight--
}

// missed records a request that was due but never sent.
func (r *recorder) missed(intended int64) {
	t := r.at(intended)
	t.Scheduled++
	t.Unfinished++
	r.n += r.stride
	if r.log != nil {
		r.log.add(intended)
	}
}

// sealable reports whether the first open interval is over at watermark. Nothing more is
// recorded before the watermark.
func (r *recorder) sealable(watermark int64) bool {
	if len(r.open) == 0 {
		return watermark >= int64(r.first+1)*r.interval
	}
	return watermark >= r.open[0].end && r.open[0].outstanding == 0
}

// sealUpTo seals every interval that is over at watermark and has nothing outstanding, in
// order and without gaps.
func (r *recorder) sealUpTo(watermark int64) {
	for r.sealable(watermark) {
		r.sealFirst()
	}
}

// finish seals all intervals up to the end of the schedule, and later ones with any records.
// Nothing may be outstanding.
func (r *recorder) finish(end int64) {
	for int64(r.first)*r.interval < end || len(r.open) > 0 {
		r.sealFirst()
	}
}

func (r *recorder) sealFirst() {
	t := r.at(int64(r.first) * r.interval)
	r.first++
	r.open = r.open[1:]
	r.last = nil
	r.seal(t)
}
