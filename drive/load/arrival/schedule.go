package arrival

import "math"

// Request is one planned request.
type Request struct {
	// Offset is when it should leave, in nanoseconds since the start.
	Offset int64
	// PayloadBytes is the size of its payload, or -1 for the run's own.
	PayloadBytes int32
	// RateRPS is the schedule's rate there, in requests per second; 0 where it
	// has none, as a trace.
	RateRPS float64
	// count is the cumulative count at which it leaves, where a shape's rate
	// decides.
	count float64
}

// Changing is a Schedule whose rate can be changed while it is walked.
//
// Changes and the seed fix the times: a schedule walked to any place and then
// changed yields what it would have yielded had it been changed before its
// first request.
type Changing interface {
	Schedule
	// Change makes the rate rateRPS from offset at on, in place of whatever
	// was planned from there on. It may be 0: none then.
	Change(at int64, rateRPS float64)
	// Again returns when a request that Next has returned leaves after a
	// change; false if that is no longer within the schedule's duration. The
	// request must not lie before at of the last change.
	Again(Request) (Request, bool)
}

// Schedule yields requests in the order of their offsets, which never
// decrease. Next reports false when there are no more. A Schedule made again
// from the same arguments yields the same requests.
type Schedule interface {
	Next() (Request, bool)
}

// process yields the cumulative counts at which arrivals happen: for a
// Poisson process of rate 1 the arrival times themselves.
type process func() float64

// timed turns a process of rate one into one of the shape's rate, by the
// inverse of the shape's cumulative count (time change theorem).
type timed struct {
	next     process
	segments []segment
	i        int // of the segment that the next request may lie in
	end      int64
	count    float64 // of a request that did not leave before the end
	held     bool    // there is one; a change may bring it back
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

// place returns when the request of a count leaves, from segment *i on.
func (t *timed) place(i *int, count float64) (Request, bool) {
	for {
		seg := &t.segments[*i]
		at := seg.at(count)
		if at < seg.end || *i == len(t.segments)-1 {
			ns := at * 1e9
			if !(ns < float64(t.end)) {
				return Request{}, false
			}
			return Request{Offset: int64(ns), PayloadBytes: -1, RateRPS: seg.rate + seg.slope*(at-seg.start), count: count}, true
		}
		*i++
	}
}

// Change implements [Changing].
func (t *timed) Change(at int64, rateRPS float64) {
	t.segments = changed(t.segments, float64(at)/1e9, rateRPS)
	t.i = min(t.i, max(0, len(t.segments)-2))
}

// Again implements [Changing].
func (t *timed) Again(r Request) (Request, bool) {
	i := max(0, len(t.segments)-2) // the one that the change cut
	return t.place(&i, r.count)
}

func newTimed(shape Shape, durationS float64, next process) Changing {
	return &timed{next: next, segments: shape.segments(), end: int64(math.Round(durationS * 1e9))}
}

// Poisson returns a Poisson process of the shape's rate over durationS
// seconds: gaps are exponential where the rate is constant. The same seed
// gives the same schedule.
func Poisson(shape Shape, durationS float64, seed uint64) Changing {
	return PoissonOf(Hand{Of: 1}, shape, durationS, seed)
}

// poissonStream tells Poisson schedules' numbers from others of the same seed.
const poissonStream = 0x6d6573686d61726b

// Uniform returns evenly spaced requests, the first at 0: request k leaves
// when the shape's cumulative count reaches k.
func Uniform(shape Shape, durationS float64) Changing {
	k := -1.0
	return newTimed(shape, durationS, func() float64 {
		k++
		return k
	})
}

// Burst returns requests in groups of size that leave at one instant, the
// first at 0: group g leaves when the shape's cumulative count reaches
// g*size, so the mean rate is the shape's.
func Burst(shape Shape, durationS float64, size int) Changing {
	return BurstOf(0, size, shape, durationS, size)
}
