package worker

import (
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshtrial/meshtrial/drive/worker/control"
	"github.com/meshtrial/meshtrial/study/protocol"
	"golang.org/x/sys/unix"
)

// statusGone is nginx's status for requests whose client went away before the answer.
const statusGone = 499

// counters count what the worker served. A request updates those of its own protocol.
type counters struct {
	started   time.Time
	protocols []*protocolCounters // in the order of [protocol.Counters]

	inFlight        atomic.Int64
	held            atomic.Int64
	serviceNS       atomic.Int64
	heldNS          atomic.Int64
	waiting         atomic.Int64
	overflowed      atomic.Int64
	planted         [len(failures)]atomic.Int64 // by index in failures
	openConnections atomic.Int64                // over all protocols

	callsMu sync.Mutex
	calls   map[string]*callCounters
}

// call returns the counters of the calls with a name. They live as long as the
// worker.
func (c *counters) call(name string) *callCounters {
	c.callsMu.Lock()
	defer c.callsMu.Unlock()
	if c.calls[name] == nil {
		c.calls[name] = &callCounters{failed: map[string]int64{}}
	}
	return c.calls[name]
}

// readCalls returns the counters of all calls.
func (c *counters) readCalls() map[string]control.CallCounters {
	c.callsMu.Lock()
	defer c.callsMu.Unlock()
	out := map[string]control.CallCounters{}
	for name, one := range c.calls {
		one.mu.Lock()
		out[name] = control.CallCounters{Requests: one.requests.Load(), Attempts: one.attempts.Load(), OK: one.ok.Load(), Failed: maps.Clone(one.failed)}
		one.mu.Unlock()
	}
	return out
}

type protocolCounters struct {
	name       string
	statusName func(int) string // the protocol's name of an HTTP status

	requests, bytesIn, bytesOut           atomic.Int64
	connections, open, refused, handshake atomic.Int64
	clientCert, throughProxy              atomic.Int64
	luaHeader, wasmHeader                 atomic.Int64
	status                                [600]atomic.Int64
}

// newCounters returns counters for every protocol.
func newCounters(started time.Time) *counters {
	c := &counters{started: started, calls: map[string]*callCounters{}}
	for _, name := range protocol.Counters() {
		p := &protocolCounters{name: name, statusName: strconv.Itoa}
		if s, ok := servings[name]; ok {
			p.statusName = s.status
		}
		c.protocols = append(c.protocols, p)
	}
	return c
}

// protocol returns the counters for a name of [protocol.Counters].
func (c *counters) protocol(name string) *protocolCounters {
	for _, p := range c.protocols {
		if p.name == name {
			return p
		}
	}
	return nil
}

// answered counts a request by the status of its answer.
func (p *protocolCounters) answered(status int) {
	p.requests.Add(1)
	if status < 0 || status >= len(p.status) {
		status = 0
	}
	p.status[status].Add(1)
}

// read returns the counters as a document.
func (c *counters) read(now time.Time) control.Counters {
	out := control.Counters{
		Schema:       control.Schema,
		UnixNS:       now.UnixNano(),
		StartedNS:    c.started.UnixNano(),
		Protocols:    map[string]control.ProtocolCounters{},
		InFlight:     c.inFlight.Load(),
		ServiceTimeS: float64(c.serviceNS.Load()) / 1e9,
		HeldS:        float64(c.heldNS.Load()) / 1e9,
		HeldRequests: c.held.Load(),
		Waiting:      c.waiting.Load(),
		Overflowed:   c.overflowed.Load(),
		Calls:        c.readCalls(),
		Planted:      map[string]int64{},
	}
	for i, how := range failures {
		if n := c.planted[i].Load(); n > 0 {
			out.Planted[how] = n
		}
	}
	for _, p := range c.protocols {
		doc := control.ProtocolCounters{
			Requests: p.requests.Load(), BytesIn: p.bytesIn.Load(), BytesOut: p.bytesOut.Load(),
			Connections: p.connections.Load(), Open: p.open.Load(), Refused: p.refused.Load(),
			Handshakes: p.handshake.Load(), ClientCert: p.clientCert.Load(), ThroughProxy: p.throughProxy.Load(),
			LuaHeader: p.luaHeader.Load(), WasmHeader: p.wasmHeader.Load(),
			Status: map[string]int64{},
		}
		for status := range p.status {
			if n := p.status[status].Load(); n > 0 {
				doc.Status[p.statusName(status)] += n
			}
		}
		out.Protocols[p.name] = doc
	}
	var usage unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &usage) == nil {
		out.CPU = control.CPU{User: seconds(usage.Utime), System: seconds(usage.Stime)}
	}
	return out
}

func seconds(t unix.Timeval) float64 { return float64(t.Nano()) / 1e9 }
