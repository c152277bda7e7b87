package arrival

import (
	"math"
	"math/rand/v2"
)

// Request is one planned request.
type Request struct {
	// Offset is when it should leave, in nanoseconds since the start.
	Offset int64
	// PayloadBytes is the size of its payload, or -1 for the run's own.
	PayloadBytes int32
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
	i        int
	end      int64
}

// Next implements [Schedule].
func (t *timed) Next() (Request, bool) {
	n := t.next()
	for {
		seg := &t.segments[t.i]
		at := seg.at(n)
		if at < seg.end || t.i == len(t.segments)-1 {
			ns := at * 1e9
			if !(ns < float64(t.end)) {
				return Request{}, false
			}
			return Request{Offset: int64(ns), PayloadBytes: -1}, true
		}
		t.i++
	}
}

func newTimed(shape Shape, durationS float64, next process) Schedule {
	return &timed{next: next, segments: shape.segments(), end: int64(math.Round(durationS * 1e9))}
}

// Poisson returns a Poisson process of the shape's rate over durationS
// seconds: gaps are exponential where the rate is constant. The same seed
// gives the same schedule.
func Poisson(shape Shape, durationS float64, seed uint64) Schedule {
	rng := rand.New(rand.NewPCG(seed, 0x6d6573686d61726b))
	at := 0.0
	return newTimed(shape, durationS, func() float64 {
		at += rng.ExpFloat64()
		return at
	})
}

// Uniform returns evenly spaced requests, the first at 0: request k leaves
// when the shape's cumulative count reaches k.
func Uniform(shape Shape, durationS float64) Schedule {
	k := -1.0
	return newTimed(shape, durationS, func() float64 {
		k++
		return k
	})
}

// Burst returns requests in groups of size that leave at one instant, the
// first at 0: group g leaves when the shape's cumulative count reaches
// g*size, so the mean rate is the shape's.
func Burst(shape Shape, durationS float64, size int) Schedule {
	k := -1
	return newTimed(shape, durationS, func() float64 {
		k++
		return float64(k - k%size)
	})
}
