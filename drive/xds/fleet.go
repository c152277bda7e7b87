package xds

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshtrial/meshtrial/drive/xds/stream"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
)

// Fleet is a number of running simulated proxies. Its methods are safe for concurrent
// use.
type Fleet struct {
	spec      Spec
	catalogue *catalogue
	proxies   []proxy
	gate      gate
	sightings sightings
	joining   *joining               // nil but for [Join]
	outage    atomic.Pointer[outage] // nil before [Fleet.BeginOutage]
	security  map[string]*tls.Config // by identity; "" for all
	tokens    map[string][]stream.Header

	ctx    context.Context
	cancel context.CancelFunc
	owned  sync.WaitGroup // every goroutine of the fleet

	connected   atomic.Int64
	synced      atomic.Int64
	everSynced  atomic.Int64
	malformed   atomic.Int64
	lastMessage atomic.Int64
	lastChange  atomic.Int64
	wire        [kinds + 1]wireCount // the last for unknown types
	lag         histogram
	turns       histogram
	unstamped   atomic.Int64 // reads without a kernel timestamp
	timerLag    histogram
	convergence histogram
	warmAfter   atomic.Int64 // limits how long an ACK is held, ns; 0: warmLimit

	mu         sync.Mutex
	reconnects map[string]int64
	waiting    map[int32]string // why disconnected proxies lost their streams
	lastError  string
	random     *rand.Rand
}

// wireCount is a record.Wire of atomic counters.
type wireCount struct {
	responses, bytes, resources, identical, identicalBytes, removed, acks, nacks atomic.Int64
}

func (w *wireCount) record() record.Wire {
	return record.Wire{
		Responses: w.responses.Load(), Bytes: w.bytes.Load(), Resources: w.resources.Load(), Identical: w.identical.Load(),
		IdenticalBytes: w.identicalBytes.Load(), Removed: w.removed.Load(), Acks: w.acks.Load(), Nacks: w.nacks.Load(),
	}
}

// Reasons of lost streams.
const (
	reasonStorm      = "storm"      // the proxy's behaviour
	reasonConnection = "connection" // the connection broke
	reasonDial       = "dial"       // no connection could be made
	reasonMalformed  = "malformed"  // an invalid message
	// and the names of gRPC's codes
)

// Start starts a fleet, whose proxies connect one after another. It runs until ctx ends or
// Stop.
func Start(ctx context.Context, spec Spec) (*Fleet, error) { return start(ctx, spec, nil) }

// start is Start. If first is not nil, it records the times of the first requests and
// responses.
func start(ctx context.Context, spec Spec, first *joining) (*Fleet, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	f := &Fleet{
		spec: spec, catalogue: newCatalogue(spec.Mode == ModeDelta), proxies: make([]proxy, len(spec.Proxies)),
		joining: first, reconnects: map[string]int64{}, waiting: map[int32]string{}, random: rand.New(rand.NewPCG(spec.Seed, 0x6d657368)),
	}
	if err := f.prepareSecurity(ctx); err != nil {
		return nil, err
	}
	f.ctx, f.cancel = context.WithCancel(ctx)
	f.sightings.proxies = len(f.proxies)
	f.gate.init(f)
	for i := range f.proxies {
		p := &f.proxies[i]
		p.fleet, p.spec, p.index = f, &f.spec.Proxies[i], int32(i)
		for k := range kinds {
			p.tables[k].Store(emptyTables[k])
			p.subscribed[k] = noNames
		}
		f.gate.enqueue(p)
	}
	f.owned.Go(f.gate.run)
	f.owned.Go(f.heartbeat)
	f.owned.Go(f.tidy)
	return f, nil
}

// Stop ends all streams and waits for all goroutines. The counters can still be read.
func (f *Fleet) Stop() {
	f.cancel()
	f.owned.Wait()
}

// Announce adds markers to look for and returns the index of the first. Call it before
// making the change. Responses of the last 10 s are searched too, unless the same text was
// marked before; [MarkerSightings.SearchedFromNS] is the start of that search. Only
// proxies that are known to have held something see a marker for its disappearance.
func (f *Fleet) Announce(markers []record.Marker) (first int, err error) {
	for _, m := range markers {
		if m.Text == "" {
			return 0, errs.Usage("xds: a marker of change %d has no text", m.Change)
		}
		if kindNamed(m.Type) == kinds {
			return 0, errs.Usage("xds: marker %q of change %d: %q is not a type that proxies request from istiod (cds, eds, lds, rds, nds, ecds, wds, wads)", m.Text, m.Change, m.Type)
		}
	}
	now := time.Now().UnixNano()
	first = f.catalogue.announce(markers, now)
	f.lookBack(first, first+len(markers), now)
	return first, nil
}

// lost notes the end of a stream and reconnects the proxy.
func (f *Fleet) lost(p *proxy, status *stream.Status) {
	reason := status.Code.String()
	if status.Local && status.Code == stream.Unavailable {
		reason = reasonConnection
	}
	f.failed(p, cmp.Or(p.ends, reason), status)
}

func (f *Fleet) failed(p *proxy, reason string, err error) {
	was := p.connected
	if was {
		f.connected.Add(-1)
	}
	if p.synced {
		f.synced.Add(-1)
	}
	if now := time.Now().UnixNano(); was {
		f.outage.Load().loses(p.index, now)
		if p.without == 0 {
			p.without = now
		}
	}
	p.connected, p.synced = false, false
	p.attempts++
	if f.ctx.Err() == nil {
		f.mu.Lock()
		f.reconnects[reason]++
		f.waiting[p.index] = reason
		if reason != reasonStorm {
			f.lastError = fmt.Sprintf("%s.%s: %v", p.spec.Name, p.spec.Namespace, err)
		}
		f.mu.Unlock()
	}
	f.gate.released(p, was, reason, f.rest(p, was, reason))
}

// Bounds of the back-off; a proxy waits a random part of it. backoffMax applies while the
// gate also limits connections. Without the gate a proxy's limit is that of Envoy
// (source/extensions/config_subscription/grpc: 500 ms to 30 s, doubled, reset by the first
// response).
const (
	backoffBase  = 500 * time.Millisecond
	backoffMax   = 5 * time.Second
	backoffEnvoy = 30 * time.Second
)

// rest returns how long a proxy waits before it reconnects; had reports whether its stream
// had been answered.
func (f *Fleet) rest(p *proxy, had bool, reason string) time.Duration {
	if p.spec.nodeType() == NodeZtunnel && reason != reasonStorm {
		return p.ztunnelRest(had, reason)
	}
	return f.backoff(p.attempts, reason)
}

// backoff returns how long an Envoy waits before it reconnects.
func (f *Fleet) backoff(attempts int, reason string) time.Duration {
	limit := backoffMax
	if f.outage.Load() != nil {
		limit = backoffEnvoy
	}
	limit = min(limit, backoffBase<<min(attempts-1, 10))
	if reason == reasonStorm {
		limit = backoffBase / 10
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Duration(f.random.Int64N(int64(limit)))
}

// stormAfter draws how long a proxy of a reconnect storm keeps a stream.
func (f *Fleet) stormAfter() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Duration(f.spec.StormEveryS * (0.5 + f.random.Float64()) * float64(time.Second))
}

// Memory is returned after tidyAfter without a message and tidyBytes of messages.
const (
	tidyEvery = 250 * time.Millisecond
	tidyAfter = 500 * time.Millisecond
	tidyBytes = 64 << 20
)

// tidy returns memory that connecting or a large push took and that an idle fleet does not
// need: results kept for other proxies, buffers, and the contents and tables that only
// those held.
func (f *Fleet) tidy() {
	ticker := time.NewTicker(tidyEvery)
	defer ticker.Stop()
	var done int64
	again := false // recent steps still held some of it
	for {
		select {
		case <-f.ctx.Done():
			return
		case now := <-ticker.C:
			remembers := f.sightings.expire(now)
			if again && !remembers {
				again = false
				f.giveBack()
			}
			var got int64
			for k := range f.wire {
				got += f.wire[k].bytes.Load()
			}
			if got-done > tidyBytes && now.UnixNano()-f.lastMessage.Load() > int64(tidyAfter) {
				f.giveBack()
				done, again = got, remembers
			}
		}
	}
}

// giveBack frees everything that no proxy holds.
func (f *Fleet) giveBack() {
	f.catalogue.forget()
	runtime.GC() // pools survive one collection
	f.catalogue.sweep()
	debug.FreeOSMemory()
}

// heartbeatEvery is how often the scheduler's delay is measured. A wake-up costs some tens
// of microseconds: at 5 ms a small fleet would spend as much on them as istiod on pushes.
const heartbeatEvery = 50 * time.Millisecond

// heartbeat measures how late a sleeping goroutine wakes up.
func (f *Fleet) heartbeat() {
	timer := time.NewTimer(heartbeatEvery)
	defer timer.Stop()
	for {
		due := time.Now().Add(heartbeatEvery)
		timer.Reset(heartbeatEvery)
		select {
		case <-timer.C:
			f.timerLag.add(int64(max(0, time.Since(due))))
		case <-f.ctx.Done():
			return
		}
	}
}
