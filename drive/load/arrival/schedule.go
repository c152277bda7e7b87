package arrival

import "math"

// Request is one planned request.
type Request struct {
	// Offset is its intended time, in nanoseconds since the start.
	Offset int64
	// RateRPS is the schedule's rate at that time, in requests per second.
	RateRPS float64
	// count is the cumulative count at which it is due, if a shape decides.
	count float64
}

// Schedule yields requests in order of their offsets, which never decrease. The same arguments
// and changes give the same requests: a schedule that is changed during iteration yields what
// it would have yielded had it been changed before its first request.
type Schedule interface {
	// Next reports false at the end.
	Next() (Request, bool)
	// Change replaces the planned rate by rateRPS, which may be 0, from offset at
	// on.
	Change(at int64, rateRPS float64)
	// Again returns the new time of a request that Next has returned, after a change; false if
	// it is beyond the schedule's duration. The request must not be earlier than at of the
	// last change.
	Again(Request) (Request, bool)
}

// process yields the cumulative counts at which arrivals happen: for a Poisson process of
// rate 1, the arrival times.
type process func() float64

// timed gives a process of rate one the shape's rate, by the inverse of the shape's
// cumulative count (time change theorem).
type timed struct {
	next     process
	segments []segment
	i        int // of the segment that may contain the next request
	end      int64
	count    float64 // of a request beyond the end
	held     bool    // the request exists; a change may move it before the end
}

// Next implements [Schedule].
func (t *timed) Next() (Request, bool) {
	if !t.held {
		t.count = t.next()
	}
	req, ok := t.place(&t.i, t.count)
	t.held = !ok
	return req, ok
}

// place returns the request with the given count, from segment *i on.
func (t *timed) place(i *int, count float64) (Request, bool) {
	for {
		seg := &t.segments[*i]
		at := seg.at(count)
		if at < seg.end || *i == len(t.segments)-1 {
			ns := at * 1e9
			if !(ns < float64(t.end)) {
				return Request{}, false
			}
			return Request{Offset: int64(ns), RateRPS: seg.rate + seg.slope*(at-seg.start), count: count}, true
		}
		*i++
	}
}

// Change implements [Schedule].
func (t *timed) Change(at int64, rateRPS float64) {
	t.segments = changed(t.segments, float64(at)/1e9, rateRPS)
	t.i = min(t.i, max(0, len(t.segments)-2))
}

// Again implements [Schedule].
func (t *timed) Again(r Request) (Request, bool) {
	i := max(0, len(t.segments)-2) // the one that the change cut
	return t.place(&i, r.count)
}

func newTimed(shape Shape, durationS float64, next process) Schedule {
	return &timed{next: next, segments: shape.segments(), end: int64(math.Round(durationS * 1e9))}
}

// Poisson returns a Poisson process of the shape's rate over durationS seconds: gaps are
// exponential where the rate is constant. The same seed gives the same schedule.
func Poisson(shape Shape, durationS float64, seed uint64) Schedule {
	return PoissonOf(Hand{Of: 1}, shape, durationS, seed)
}

// poissonStream separates the random numbers of Poisson schedules from others with the same
// seed.
const poissonStream = 0x6d6573686d61726b

// Uniform returns evenly spaced requests, the first at 0: request k is due when the shape's
// cumulative count reaches k.
func Uniform(shape Shape, durationS float64) Schedule {
	k := -1.0
	return newTimed(shape, durationS, func() float64 {
		k++
		return k
	})
}

// Burst returns simultaneous requests in groups of size, the first at 0: group g is due when
// the shape's cumulative count reaches g*size, so the mean rate is the shape's.
func Burst(shape Shape, durationS float64, size int) Schedule {
	return BurstOf(0, size, shape, durationS, size)
}
