package load

import "math"

// orderSpan is the number of requests, by intended time, that a shard remembers. Pairs of
// neighbours that end farther apart are ignored. A power of two.
const orderSpan = 512

// order tracks a shard's requests by intended time; they may be sent or answered in another
// order. It records the gap between successive requests and their latencies as a pair, both
// in the interval of the later one. That interval is not sealed yet, because one of the two
// was still in flight.
type order struct {
	stride int64 // from a request's number to its neighbour's
	// unit is the number of the schedule's requests that a mean gap spans.
	unit  float64
	burst bool // gaps are between rounds
	round int64
	begun bool // round is when the last round's first request was acted on
	marks [orderSpan]mark
}

// mark is the state of a request.
type mark struct {
	place    int64 // in the shard's order, from 1; 0: empty
	acted    int64
	latency  float64 // natural logarithm of ns
	sent, ok bool    // acted, and latency, are known
	intended int64
	rate     float64
	tally    *tally
}

// newOrder returns the order of one of a Spec's shards; nil at rate max.
func newOrder(spec *Spec, shards int) *order {
	if spec.Rate.IsMax() {
		return nil
	}
	o := &order{stride: int64(shards), unit: float64(shards)}
	switch {
	case spec.Arrival == Burst:
		o.unit, o.burst = float64(spec.Connections), true
		if spec.dealt() {
			o.unit = float64(spec.Share.Connections)
		}
	case spec.Share != nil && (spec.Arrival == Uniform || spec.dealt()):
		o.unit *= float64(spec.Share.Of)
	}
	return o
}

// place returns the mark of a request, and those of its neighbours if remembered, else nil.
// A request whose place a later one has taken has none: reclaiming it would lose the pairs
// of the later one.
func (o *order) place(req *request) (before, m, after *mark) {
	k := req.n/o.stride + 1
	m = &o.marks[k%orderSpan]
	if m.place > k {
		return nil, nil, nil
	}
	if m.place != k {
		*m = mark{place: k, intended: req.intended, rate: req.rate, tally: req.tally}
	}
	if b := &o.marks[(k-1)%orderSpan]; b.place == k-1 && k > 1 {
		before = b
	}
	if a := &o.marks[(k+1)%orderSpan]; a.place == k+1 {
		after = a
	}
	return before, m, after
}

// acted records when the generator acted on a due request: when it was sent, minus the time
// without a free connection, which the target causes, but not before it acted on the
// previous request. Without lag that is the intended time, however slow the target is. If
// the generator stalled, it is the end of the stall for all requests that became due during
// it, though most of them also waited for a connection.
func (o *order) acted(req *request, at int64) {
	before, m, after := o.place(req)
	if m == nil {
		return
	}
	m.acted, m.sent = max(at, req.intended), true
	if before != nil && before.sent {
		o.gap(before, m)
	}
	if after != nil && after.sent {
		o.gap(m, after)
	}
}

// gap records the gap between two neighbours.
func (o *order) gap(a, b *mark) {
	b.acted = max(b.acted, a.acted)
	if !(b.rate > 0) {
		return
	}
	since := a.acted
	if o.burst {
		if a.intended == b.intended {
			return
		}
		begun := o.begun
		since, o.round, o.begun = o.round, b.acted, true
		if !begun {
			return
		}
	}
	b.tally.gaps.Add(float64(b.acted-since) * b.rate / (o.unit * 1e9))
}

// took records a completed request's latency in nanoseconds.
func (o *order) took(req *request, ns int64) {
	before, m, after := o.place(req)
	if m == nil {
		return
	}
	m.latency, m.ok = math.Log(float64(max(ns, 1))), true
	if before != nil && before.ok {
		m.tally.serial.Add(before.latency, m.latency)
	}
	if after != nil && after.ok {
		after.tally.serial.Add(m.latency, after.latency)
	}
}
