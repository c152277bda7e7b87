package load

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/meshmark/meshmark/errs"
	"github.com/meshmark/meshmark/load/arrival"
)

// engine sends a schedule: the event loops, or the pool.
type engine interface {
	// connect opens the connections and returns how many are open.
	connect(ctx context.Context) (int, error)
	// run sends the schedule, with offset 0 at epoch. It returns when all
	// is filed and every connection closed.
	run(epoch time.Time)
	// wake makes it look at the deadline again.
	wake()
}

func start(ctx context.Context, spec Spec, observe Observer) (*Running, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	t, err := spec.parseTarget()
	if err != nil {
		return nil, err
	}
	if err := enoughFiles(spec.Connections, spec.Threads); err != nil {
		return nil, err
	}
	addr, probes, err := resolve(ctx, t, spec.KeepAlive, seconds(spec.TimeoutS))
	if err != nil {
		return nil, err
	}

	interval := int64(seconds(spec.IntervalS))
	r := &Running{
		Epoch: time.Time{}, done: make(chan struct{}),
		result: &Result{Spec: spec, Version: version(), Replicas: 1},
	}
	d := &deadline{}
	d.end.Store(int64(seconds(spec.DurationS)))
	e := newEdges(interval)
	shards := 1
	looped := !t.tls && (t.protocol == HTTP1 || t.protocol == TCP)
	if looped {
		shards = spec.Threads
	}
	col := newCollector(shards, interval, spec.Rate == Max, e, func(iv Interval, s Summary) { r.publish(iv, s, observe) })
	// The event loop keeps a processor of Go's scheduler busy; the collector
	// and the caller need another one, whatever the CPU quota says.
	if n := shards + 1; runtime.GOMAXPROCS(0) < n {
		runtime.GOMAXPROCS(n)
	}

	var eng engine
	if looped {
		eng, err = newLoops(&spec, t, addr, d, e, col)
	} else {
		eng, err = newPool(&spec, t, addr, d, e, col)
	}
	if err != nil {
		return nil, err
	}
	opened, err := eng.connect(ctx)
	if err != nil {
		return nil, err
	}
	r.result.Opened, r.result.Probes = int64(opened), int64(probes)

	epoch := time.Now()
	r.Epoch = epoch
	r.result.Start = epoch
	r.stop = func(i int) {
		now := int64(time.Since(epoch))
		if i >= 0 && i < maxIntervals {
			now = max(now, int64(i+1)*interval)
		}
		d.lower(now)
		eng.wake()
	}
	var all sync.WaitGroup
	all.Go(col.run)
	cancelled := context.AfterFunc(ctx, func() {
		d.cancelled.Store(true)
		r.stop(-1)
	})
	go func() {
		eng.run(epoch)
		close(col.sealed)
		all.Wait()
		cancelled()
		r.finish(d)
	}()
	return r, nil
}

// publish adds a finished interval.
func (r *Running) publish(iv Interval, s Summary, observe Observer) {
	r.mu.Lock()
	r.result.Intervals = append(r.result.Intervals, iv)
	r.summaries = append(r.summaries, s)
	r.mu.Unlock()
	if observe != nil {
		observe(s)
	}
}

// finish completes the result: the last interval ends with the schedule.
func (r *Running) finish(d *deadline) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.EndNS = d.end.Load()
	r.result.Interrupted = d.cancelled.Load()
	for i := range r.result.Intervals {
		iv := &r.result.Intervals[i]
		iv.DurationNS = max(1, min(iv.DurationNS, r.result.EndNS-iv.StartNS))
		r.summaries[i].DurationNS = iv.DurationNS
	}
	close(r.done)
}

// schedule returns the requests that a Spec plans; nil for rate max.
func (s *Spec) schedule() arrival.Schedule {
	if s.Trace != nil {
		return s.Trace.Replay(s.DurationS)
	}
	if s.Rate == Max {
		return nil
	}
	shape := arrival.Shape{Kind: arrival.Constant, RateRPS: float64(s.Rate)}
	if s.Shape != nil {
		shape = *s.Shape
	}
	switch s.Arrival {
	case Uniform:
		return arrival.Uniform(shape, s.DurationS)
	case Burst:
		return arrival.Burst(shape, s.DurationS, s.Connections)
	}
	return arrival.Poisson(shape, s.DurationS, s.Seed)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// resolve finds the address that every connection goes to: the host's only
// one, or the first that accepts a connection. It returns how many
// connections it made to find out. Without keep-alive, which opens none
// before the first request, it always makes one: a server that is not there
// is an error now, not a failure of every request.
func resolve(ctx context.Context, t target, keepAlive bool, timeout time.Duration) (addr *net.TCPAddr, probes int, err error) {
	fail := func(err error) (*net.TCPAddr, int, error) {
		return nil, probes, errs.WithHint(fmt.Errorf("load: %w", err), "nothing was sent; is the server at %s:%s up, and is the address right?", t.host, t.port)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if keepAlive {
		addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", t.host)
		if err != nil {
			return fail(err)
		}
		if len(addresses) == 1 {
			port, err := strconv.ParseUint(t.port, 10, 16)
			if err != nil {
				return fail(err)
			}
			return net.TCPAddrFromAddrPort(netip.AddrPortFrom(addresses[0].Unmap(), uint16(port))), 0, nil
		}
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(t.host, t.port))
	if err != nil {
		return fail(err)
	}
	defer conn.Close()
	return conn.RemoteAddr().(*net.TCPAddr), 1, nil
}

// enoughFiles says whether the process may open as many connections.
func enoughFiles(connections, threads int) error {
	const spare = 64 + lookahead // per loop: epoll, an eventfd, timers
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return nil // then the connections themselves will tell
	}
	if uint64(connections+threads*spare) > limit.Cur {
		return errs.WithHint(errs.Usage("connections %d: this process may open %d files", connections, limit.Cur),
			"raise the limit (ulimit -n) or use fewer connections")
	}
	return nil
}

// version names this program's build.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return info.Main.Version
}
