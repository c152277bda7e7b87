package xds

import (
	"bytes"
	"time"
)

// request is a message of a proxy.
type request struct {
	message []byte
	shared  bool        // the message is never changed
	sent    func(int64) // see stream.Stream.Send
	due     time.Time
}

// say sends a request. If the request answers a response, it is delayed as in Envoy,
// which first processes the response. The delay matters to istiod: it reads an answer
// that arrives while it is still writing in passing, but a later one wakes up the
// connection's reader, its writer (for the ping by which grpc-go estimates the bandwidth)
// and the stream.
func (p *proxy) say(r request) {
	after := time.Duration(p.fleet.spec.AnswerAfterUS) * time.Microsecond
	if after == 0 || !p.taking && len(p.later) == 0 {
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

// utter passes a request to the stream.
func (p *proxy) utter(r *request) {
	if r.shared && r.sent == nil {
		p.stream.SendShared(r.message)
		return
	}
	p.stream.Send(r.message, r.sent)
}

// remind schedules answer for the time at which the first request is due.
func (p *proxy) remind() {
	p.callAt(p.later[0].due, (*proxy).answer)
}

// answer sends due requests. Their delay is part of the time for which acknowledgements
// wait for the simulator.
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

// giveUp drops the requests of an ended stream. The next stream acknowledges what they
// would have acknowledged.
func (p *proxy) giveUp() {
	for _, r := range p.later {
		if r.sent != nil {
			p.owed = append(p.owed, r.sent)
		}
	}
	p.later, p.taking = nil, false
}

// hesitate draws how long a proxy takes to answer: an exponential time, as for a busy
// Envoy.
func (f *Fleet) hesitate(mean time.Duration) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Duration(f.random.ExpFloat64() * float64(mean))
}
