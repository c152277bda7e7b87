package components

import (
	"sync"
	"time"
)

// meter turns steps into events with an estimate of the time left. Each piece of
// work has a weight, its cold duration on two cores; the pace so far scales the
// remaining weights to this machine.
type meter struct {
	mu     sync.Mutex
	tell   func(Event)
	began  time.Time
	work   map[string]*piece
	latest map[string]time.Time
}

// titles names units with several components.
var titles = map[string]string{
	"node": "coredns, kwok, pause", "istio": "istiod", "agent": "pilot-agent", "debian": "Debian packages",
}

type piece struct {
	seconds float64
	done    float64 // 0..1
	phase   Phase
}

func newMeter(tell func(Event)) *meter {
	return &meter{tell: tell, began: time.Now(), work: map[string]*piece{}, latest: map[string]time.Time{}}
}

// expect announces a piece of work.
func (m *meter) expect(name string, seconds float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.work[name] = &piece{seconds: seconds}
}

// every is the minimum interval between two events of a component's phase.
const every = 200 * time.Millisecond

// step reports the progress of a piece of work (0..1).
func (m *meter) step(name string, phase Phase, done float64, detail string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.work[name]
	if p == nil {
		p = &piece{}
		m.work[name] = p
	}
	changed := p.phase != phase
	p.phase, p.done = phase, max(p.done, done)
	now := time.Now()
	if !changed && now.Sub(m.latest[name]) < every {
		return
	}
	m.latest[name] = now
	m.send(Event{Component: name, Phase: phase, Detail: detail})
}

// finish reports that a piece of work is complete.
func (m *meter) finish(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.work[name]; p != nil {
		p.done = 1
	}
	m.send(Event{Component: name, Phase: PhaseReady})
}

func (m *meter) note(name, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.send(Event{Component: name, Phase: PhaseNote, Detail: text})
}

func (m *meter) send(e Event) {
	if m.tell == nil {
		return
	}
	if title := titles[e.Component]; title != "" {
		e.Component = title
	}
	e.Elapsed = time.Since(m.began)
	e.Left = m.left(e.Elapsed)
	m.tell(e)
}

// left estimates the remaining time after elapsed.
func (m *meter) left(elapsed time.Duration) time.Duration {
	var all, done float64
	for _, p := range m.work {
		all += p.seconds
		done += p.seconds * p.done
	}
	pace := 1.0
	// Early on, the weights say more than the few observations.
	if share := done / max(all, 1); share > 0 {
		seen := elapsed.Seconds() / done
		trust := min(1, share*5)
		pace = trust*seen + (1-trust)*1
	}
	return time.Duration((all - done) * pace * float64(time.Second)).Round(time.Second)
}
