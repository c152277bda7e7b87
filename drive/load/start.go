package load

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/meshtrial/meshtrial/drive/load/arrival"
	"github.com/meshtrial/meshtrial/internal/errs"
)

// engine sends a schedule: the event loops, or the pool.
type engine interface {
	// connect opens the connections and returns how many are open.
	connect(ctx context.Context) (int, error)
	// begin sets the instant of the schedule's offset 0, before run.
	begin(epoch time.Time)
	// run sends the schedule. It returns when everything is recorded and
	// every connection closed.
	run()
	// change sets the rate from offset at on; it returns false if at has passed. Only
	// schedules with a rate can be changed, by one caller at a time.
	change(at int64, rps float64) bool
	// close closes the connections when no run follows.
	close()
	// wake makes the engine check the deadline again.
	wake()
}

// setup holds the parts of an engine.
type setup struct {
	spec      *Spec
	target    target
	addr      *net.TCPAddr
	deadline  *deadline
	edges     *edges
	collector *collector
}

// Start validates spec, connects, and begins a run. It returns once the connections are
// open. Cancelling ctx ends the run immediately. The observer may be nil.
func Start(ctx context.Context, spec Spec, observe Observer) (*Running, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	t, err := spec.parseTarget()
	if err != nil {
		return nil, err
	}
	if err := enoughFiles(max(spec.Connections, spec.MaxConnections), spec.Threads); err != nil {
		return nil, err
	}
	addr, probes, err := resolve(ctx, t, spec.KeepAlive, seconds(spec.TimeoutS))
	if err != nil {
		return nil, err
	}

	interval := int64(seconds(spec.IntervalS))
	r := &Running{
		Epoch: time.Time{}, spec: spec, done: make(chan struct{}),
		result: &Result{Spec: spec, Replicas: 1, CPUs: spec.cpus()},
	}
	d := &deadline{}
	d.end.Store(int64(seconds(spec.DurationS)))
	e := newEdges(interval)
	shards := 1
	if t.looped() {
		shards = spec.Threads
	}
	col := newCollector(shards, interval, spec.Rate.IsMax(), e, func(iv Interval, s Summary) { r.publish(iv, s, observe) })
	r.progress = col.progress
	var store *logStore
	if spec.RequestLog {
		store = newLogStore(shards, MaxLoggedRequests)
		for range shards {
			col.logs = append(col.logs, &shardLog{store: store})
		}
	}
	// Each event loop keeps a processor of Go's scheduler busy; the collector and the
	// caller need another one, whatever the CPU quota.
	if n := shards + 1; runtime.GOMAXPROCS(0) < n {
		runtime.GOMAXPROCS(n)
	}

	parts := setup{spec: &spec, target: t, addr: addr, deadline: d, edges: e, collector: col}
	var eng engine
	if t.looped() {
		eng, err = newLoops(parts)
	} else {
		eng, err = newPool(parts)
	}
	if err != nil {
		return nil, err
	}
	opened, err := eng.connect(ctx)
	if err != nil {
		return nil, err
	}
	r.result.Opened, r.result.Probes = int64(opened), int64(probes)

	epoch, err := spec.epoch(time.Now())
	if err != nil {
		eng.close()
		return nil, err
	}
	r.Epoch = epoch
	r.result.Start = epoch
	eng.begin(epoch)
	r.changer.set = eng.change
	r.stop = func(i int) {
		r.cut(d, func(lead time.Duration) int64 { return stopAt(i, interval, time.Since(epoch), lead) })
		eng.wake()
	}
	r.drive(ctx, eng, col, store, d)
	return r, nil
}

// poolCPUs is the number of CPUs that Go's scheduler uses before an event loop raises
// it.
var poolCPUs = runtime.GOMAXPROCS(0)

// cpus returns the number of CPUs that the engine of a valid Spec can use: one per
// event loop, or for the pool those of Go's scheduler.
func (s *Spec) cpus() int {
	if t, err := s.parseTarget(); err == nil && !t.looped() {
		return poolCPUs
	}
	return max(1, s.Threads)
}

// stopAt returns the offset at which to end a run that should end with interval i: as
// soon as possible if that interval is over or negative.
func stopAt(i int, interval int64, now, lead time.Duration) int64 {
	if end := int64(i+1) * interval; i >= 0 && i < maxIntervals && end > int64(now) {
		return end
	}
	return max(0, int64(now+lead))
}

// drive runs the engine and the collector until everything is recorded or the context
// ends. store is nil without a request log.
func (r *Running) drive(ctx context.Context, eng engine, col *collector, store *logStore, d *deadline) {
	var all sync.WaitGroup
	all.Go(col.run)
	cancelled := context.AfterFunc(ctx, func() {
		d.cancelled.Store(true)
		r.stop(-1)
	})
	if store != nil {
		go store.fill()
	}
	go func() {
		eng.run()
		close(col.sealed)
		all.Wait()
		cancelled()
		if store != nil {
			store.close()
			r.result.Requests = newRequestLog(&r.spec, r.Epoch, col.logs)
		}
		for i := range col.reasons {
			r.result.Reasons = mergeReasons(r.result.Reasons, col.reasons[i].byKind())
		}
		r.finish(d)
	}()
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
	r.result.Changes = r.changer.list()
	for i := range r.result.Intervals {
		iv := &r.result.Intervals[i]
		iv.DurationNS = max(1, min(iv.DurationNS, r.result.EndNS-iv.StartNS))
		r.summaries[i].DurationNS = iv.DurationNS
	}
	close(r.done)
}

// schedule returns the requests of a Spec; nil at rate max.
func (s *Spec) schedule() arrival.Schedule {
	if s.Rate.IsMax() {
		return nil
	}
	shape := s.shape().Scaled(s.portion())
	switch s.Arrival {
	case Uniform:
		return s.takeTurns(arrival.Uniform(shape, s.DurationS))
	case Burst:
		if s.dealt() {
			from, to := s.Share.burst()
			return arrival.BurstOf(from, to, shape, s.DurationS, s.Share.Connections)
		}
		return arrival.Burst(shape, s.DurationS, s.Connections)
	}
	seed, hand := s.Seed, arrival.Hand{Of: 1}
	switch {
	case s.dealt():
		hand = arrival.Hand{Index: s.Share.Index, Of: s.Share.Of}
	case s.Share != nil:
		seed += uint64(s.Share.Index) * 0x9e3779b97f4a7c15 // far from the seeds of other generators
	}
	if s.RepeatS > 0 {
		return arrival.RepeatingOf(hand, shape.RateRPS, s.RepeatS, s.DurationS, seed)
	}
	return arrival.PoissonOf(hand, shape, s.DurationS, seed)
}

// shape returns the shape of the total rate of all generators. There must be one.
func (s *Spec) shape() arrival.Shape {
	if s.Shape != nil {
		return *s.Shape
	}
	return arrival.Shape{Kind: arrival.Constant, RateRPS: float64(s.Rate)}
}

// takeTurns returns this generator's requests of the common schedule.
func (s *Spec) takeTurns(all arrival.Schedule) arrival.Schedule {
	if s.Share == nil || s.Share.Of == 1 {
		return all
	}
	return &every{schedule: all, n: s.Share.Of, skip: s.Share.Index}
}

// fraction returns this generator's share of the rate.
func (s *Spec) fraction() float64 {
	if s.Share == nil {
		return 1
	}
	return 1 / float64(s.Share.Of)
}

// portion returns the share of the rate in the schedule that this generator iterates
// over. Generators that take turns or divide requests at random iterate over the whole
// schedule.
func (s *Spec) portion() float64 {
	if s.Arrival == Uniform || s.dealt() {
		return 1
	}
	return s.fraction()
}

// maxStartWait limits how far ahead a run may start.
const maxStartWait = time.Hour

// epoch returns the instant of the schedule's offset 0.
func (s *Spec) epoch(now time.Time) (time.Time, error) {
	if s.StartAtUnixNS == 0 {
		return now, nil
	}
	wait := time.Duration(s.StartAtUnixNS - now.UnixNano())
	switch {
	case wait < 0:
		return now, errs.WithHint(errs.Usage("start_at_unix_ns %d: it passed %v ago, before the connections were open", s.StartAtUnixNS, -wait),
			"choose a later time, by the clock of the sending machine")
	case wait > maxStartWait:
		return now, errs.Usage("start_at_unix_ns %d: it is %v ahead, more than %v; it is in nanoseconds", s.StartAtUnixNS, wait, maxStartWait)
	}
	return now.Add(wait), nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// resolve finds the address for all connections: the host's only one, or the first that
// accepts a connection. It returns the number of connections it made for that. Without
// keep-alive, where no connection is opened before the first request, it always makes
// one: a missing server is then an error, not a failure of every request.
func resolve(ctx context.Context, t target, keepAlive bool, timeout time.Duration) (addr *net.TCPAddr, probes int, err error) {
	fail := func(err error) (*net.TCPAddr, int, error) {
		return nil, probes, errs.WithHint(fmt.Errorf("load: %w", err), "nothing was sent; check that the server runs at %s:%s", t.host, t.port)
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

// enoughFiles checks that the process may open enough files.
func enoughFiles(connections, threads int) error {
	const spare = 64 + lookahead // per loop: epoll, an eventfd, timers
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return nil // let the connections themselves fail
	}
	if uint64(connections+threads*spare) > limit.Cur {
		return errs.WithHint(errs.Usage("connections %d: this process may open %d files", connections, limit.Cur),
			"raise the limit (ulimit -n) or use fewer connections")
	}
	return nil
}
