package xds

import (
	"bytes"
	"time"
)

// request is what a proxy says on its stream.
type request struct {
	message []byte
	shared  bool        // nobody changes the message any more
	sent    func(int64) // see stream.Stream.Send
	due     time.Time
}

// say sends a request; one that answers a response as late as Envoy does, which
// has to take it first. To istiod that makes a difference: an answer that comes
// while it still writes is read on the way, one that comes later wakes up the
// connection's reader, its writer (for the ping by which grpc-go estimates the
// bandwidth) and the stream.
func (p *proxy) say(r request) {
	after := p.fleet.spec.answerAfter()
	if after == 0 || !p.taking && len(p.later) == 0 || p.spec.behaviour() == BehaviourStopsReading {
		p.utter(&r)
		return
	}
	if !r.shared {
		r.message, r.shared = bytes.Clone(r.message), true
	}
	r.due = time.Now().Add(p.fleet.hesitate(after))
	if n := len(p.later); n > 0 && r.due.Before(p.later[n-1].due) {
		r.due = p.later[n-1].due
	}
	p.later = append(p.later, r)
	if len(p.later) == 1 {
		p.remind()
	}
}

// utter hands a request to the stream.
func (p *proxy) utter(r *request) {
	if r.shared && r.sent == nil {
		p.stream.SendShared(r.message)
		return
	}
	p.stream.Send(r.message, r.sent)
}

// remind has the gate come back when the first request is due.
func (p *proxy) remind() {
	p.fleet.gate.later(p.later[0].due, action{what: answerProxy, proxy: p, link: p.link, epoch: p.epoch})
}

// answer sends the requests that are due. How late they are is part of what
// acknowledgements wait for the simulator.
func (p *proxy) answer() {
	now := time.Now()
	for len(p.later) > 0 && p.stream != nil {
		r := p.later[0]
		if r.due.After(now) {
			p.remind()
			return
		}
		p.later = p.later[1:]
		p.fleet.turns.add(int64(now.Sub(r.due)))
		p.utter(&r)
	}
	p.later = nil
}

// giveUp forgets the requests of a stream that has ended. What it would have
// acknowledged the next one acknowledges.
func (p *proxy) giveUp() {
	for _, r := range p.later {
		if r.sent != nil {
			p.owed = append(p.owed, r.sent)
		}
	}
	p.later, p.taking = nil, false
}

// hesitate draws how long a proxy takes to answer: a memoryless time, as a busy
// Envoy's answers are spread.
func (f *Fleet) hesitate(mean time.Duration) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Duration(f.random.ExpFloat64() * float64(mean))
}
