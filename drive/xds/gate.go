package xds

import (
	"container/heap"
	"maps"
	"slices"
	"sync"
	"time"
)

// gate connects proxies as fast as istiod admits them, and executes timed actions. Istiod
// admits a limited number of streams per second and rejects streams that wait longer than
// a second with ResourceExhausted. So the gate raises the number of streams that wait for
// a first answer as long as they get one, and lowers it when one is rejected.
type gate struct {
	fleet *Fleet
	wake  chan struct{}

	mu         sync.Mutex
	ready      []*proxy
	due        actions
	connecting int
	wide       bool // there is no limit
	limit      float64
	shrunk     time.Time
	links      map[*link]bool
	open       map[linkKey][]*link // with room
}

// Steps of the gate's limit.
const (
	gateStart      = 8
	gateGrow       = 0.5
	gateShrink     = 0.7
	gateShrinkOnce = 500 * time.Millisecond
	pingEvery      = 30 * time.Second // as pilot-agent does
	// busyAgain is the delay before a busy connection is tried again. The gate never
	// waits for one, because a server that does not read would block all others.
	busyAgain = 5 * time.Millisecond
)

type actionKind uint8

const (
	connectProxy actionKind = iota
	openProxy               // retry connectProxy on a connection that was busy
	callProxy               // if it still has its stream
	closeLink
	pingAll
)

// action is an action to execute on a proxy of a link, or on a link.
type action struct {
	what  actionKind
	proxy *proxy
	link  *link
	epoch uint32
	call  func(*proxy) // of callProxy
}

type timedAction struct {
	at time.Time
	action
}

// actions are a heap by time.
type actions []timedAction

func (a actions) Len() int           { return len(a) }
func (a actions) Less(i, j int) bool { return a[i].at.Before(a[j].at) }
func (a actions) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *actions) Push(x any)        { *a = append(*a, x.(timedAction)) }
func (a *actions) Pop() any {
	old := *a
	last := old[len(old)-1]
	*a = old[:len(old)-1]
	return last
}

func (g *gate) init(f *Fleet) {
	g.fleet, g.wake = f, make(chan struct{}, 1)
	g.limit = min(gateStart, float64(f.spec.MaxConnecting))
	g.links, g.open = map[*link]bool{}, map[linkKey][]*link{}
	g.later(time.Now().Add(pingEvery), action{what: pingAll})
}

// allLinks returns the current links.
func (g *gate) allLinks() []*link {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Keys(g.links))
}

// enqueue connects a proxy as soon as the gate admits it.
func (g *gate) enqueue(p *proxy) {
	g.mu.Lock()
	g.ready = append(g.ready, p)
	g.mu.Unlock()
	g.poke()
}

// later executes an action at a given time.
func (g *gate) later(at time.Time, a action) {
	g.mu.Lock()
	heap.Push(&g.due, timedAction{at, a})
	first := g.due[0].at.Equal(at)
	g.mu.Unlock()
	if first {
		g.poke()
	}
}

// callAt calls a function at a given time, under the connection's lock, if the proxy still has its
// stream then.
func (p *proxy) callAt(at time.Time, call func(*proxy)) {
	p.fleet.gate.later(at, action{what: callProxy, proxy: p, link: p.link, epoch: p.epoch, call: call})
}

func (g *gate) poke() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// admitted records the first answer on a stream.
func (g *gate) admitted() {
	g.mu.Lock()
	g.connecting--
	g.limit = min(g.limit+gateGrow, float64(g.fleet.spec.MaxConnecting))
	more := len(g.ready) > 0
	g.mu.Unlock()
	if more {
		g.poke()
	}
}

// released records that a proxy lost its stream, admitted or not, and reconnects it after
// a wait.
func (g *gate) released(p *proxy, wasAdmitted bool, reason string, wait time.Duration) {
	g.mu.Lock()
	l := p.link
	p.link = nil
	if l != nil {
		g.leave(l)
	}
	if !wasAdmitted {
		g.connecting--
		if now := time.Now(); reason == "resource-exhausted" && now.Sub(g.shrunk) > gateShrinkOnce {
			g.limit, g.shrunk = max(1, g.limit*gateShrink), now
		}
	}
	heap.Push(&g.due, timedAction{time.Now().Add(wait), action{what: connectProxy, proxy: p}})
	g.mu.Unlock()
	g.poke()
}

// run is the gate's goroutine.
func (g *gate) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		now := time.Now()
		var todo []action
		g.mu.Lock()
		for len(g.due) > 0 && !g.due[0].at.After(now) {
			a := heap.Pop(&g.due).(timedAction).action
			if a.what == connectProxy {
				g.ready = append(g.ready, a.proxy)
			} else {
				todo = append(todo, a)
			}
		}
		for len(g.ready) > 0 && (g.wide || g.connecting < int(g.limit)) && g.fleet.ctx.Err() == nil {
			p := g.ready[0]
			g.ready[0] = nil
			g.ready = g.ready[1:]
			g.connecting++
			p.link = g.place(p)
			todo = append(todo, action{what: connectProxy, proxy: p, link: p.link})
		}
		next := time.Hour
		if len(g.due) > 0 {
			next = time.Until(g.due[0].at)
		}
		g.mu.Unlock()
		for _, a := range todo {
			g.do(a)
		}
		if len(todo) > 0 {
			continue
		}
		timer.Reset(max(next, 0))
		select {
		case <-timer.C:
		case <-g.wake:
		case <-g.fleet.ctx.Done():
			return
		}
	}
}

func (g *gate) do(a action) {
	switch a.what {
	case connectProxy, openProxy:
		if !a.link.connect(a.proxy) {
			a.what = openProxy // its place is already taken
			g.later(time.Now().Add(busyAgain), a)
		}
	case closeLink:
		a.link.close()
	case pingAll:
		for _, l := range g.allLinks() {
			l.ping()
		}
		g.later(time.Now().Add(pingEvery), action{what: pingAll})
	case callProxy:
		done := a.link.do(func() {
			p := a.proxy
			// A proxy that has moved belongs to another connection.
			g.mu.Lock()
			here := p.link == a.link
			g.mu.Unlock()
			if here && p.stream != nil && p.epoch == a.epoch {
				a.call(p)
			}
		})
		if !done {
			g.later(time.Now().Add(busyAgain), a)
		}
	}
}
