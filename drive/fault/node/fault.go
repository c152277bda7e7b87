package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// standing is a fault in force, and how to end it.
type standing struct {
	Fault
	until time.Time // the end of its lease, by the monotonic clock
	end   func() error
	count func() (Packets, error) // nil: no counters
}

// signal executes a request; the fault stays in force if its ID is set.
func (s *Server) signal(ctx context.Context, request SignalRequest) (Fault, error) {
	if err := request.validate(); err != nil {
		return Fault{}, err
	}
	all, err := s.processes.container(request.Container)
	if err != nil {
		return Fault{}, err
	}
	wanted := slices.DeleteFunc(slices.Clone(all), func(p Process) bool { return p.Kind != request.Kind || p.State == "Z" })
	if len(wanted) == 0 {
		return Fault{}, fmt.Errorf("container %.80s of pod %s has no process of kind %s, but %s: %w", request.ID, request.PodUID, request.Kind, describe(all), errNotFound)
	}
	f := Fault{PodUID: request.PodUID, Processes: wanted, What: request.Signal + " " + describe(wanted)}
	switch request.Signal {
	case SignalStop:
		return s.stop(ctx, f, lease(request.LeaseMS))
	case SignalOOM:
		return s.starve(ctx, f, request.Container)
	}
	reached, err := s.processes.signal(wanted, unix.SIGKILL)
	f.BeganNS = time.Now().UnixNano()
	if err == nil && len(reached) == 0 {
		err = fmt.Errorf("%s ended on their own: %w", describe(wanted), errNotFound)
	}
	return f, err
}

func (r SignalRequest) validate() error {
	switch {
	case !slices.Contains([]string{SignalKill, SignalStop, SignalOOM}, r.Signal):
		return errs.Usage("signal %.40q: want %s, %s or %s", r.Signal, SignalKill, SignalStop, SignalOOM)
	case !slices.Contains([]string{KindEnvoy, KindAgent, KindWorker, KindIstiod, KindNode, KindInit}, r.Kind):
		return errs.Usage("kind %.40q: want %s, %s, %s, %s, %s or %s", r.Kind, KindEnvoy, KindAgent, KindWorker, KindIstiod, KindNode, KindInit)
	case r.ID == "": // which would mean all of the pod's containers
		return errs.Usage("container_id: want the container whose processes get the signal")
	case r.Signal == SignalStop:
		return validateLease(r.LeaseMS)
	case r.LeaseMS != 0:
		return errs.Usage("lease_ms: a killed process does not come back when a lease ends")
	}
	return nil
}

func validateLease(ms int64) error {
	if ms <= 0 || ms > MaxLeaseMS {
		return errs.Usage("lease_ms %d: want 1 to %d", ms, MaxLeaseMS)
	}
	return nil
}

func lease(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

func describe(all []Process) string {
	var names []string
	for _, p := range all {
		names = append(names, fmt.Sprintf("%s (process %d, %s)", p.Kind, p.PID, p.Comm))
	}
	return strings.Join(names, ", ")
}

// stop stops processes. Each is marked in its pod first, so that it continues whatever
// happens to this server.
func (s *Server) stop(ctx context.Context, f Fault, lease time.Duration) (Fault, error) {
	id, err := s.take(f.Processes)
	if err != nil {
		return Fault{}, err
	}
	defer s.untake(id)
	ns, err := s.pods.open(f.PodUID)
	if err != nil {
		return Fault{}, err
	}
	var marked []mark
	end := func() error {
		_, err := s.processes.signal(f.Processes, unix.SIGCONT)
		if err == nil {
			for _, m := range marked {
				err = errors.Join(err, removeTable(ns, m.String()))
			}
		}
		return errors.Join(err, ns.Close())
	}
	for _, p := range f.Processes {
		m := mark{Owner: s.self, Fault: id, Stopped: p}
		if err := addMark(ns, m.String()); err != nil {
			return Fault{}, errors.Join(err, end())
		}
		marked = append(marked, m)
	}
	reached, err := s.processes.signal(f.Processes, unix.SIGSTOP)
	if err == nil && len(reached) == 0 {
		err = fmt.Errorf("%s ended on their own: %w", describe(f.Processes), errNotFound)
	}
	if err == nil {
		err = s.processes.stopped(ctx, reached)
	}
	if err != nil {
		return Fault{}, errors.Join(err, end())
	}
	return s.stand(id, standing{Fault: f, end: end}, lease)
}

// network executes a request.
func (s *Server) network(request NetworkRequest) (Fault, error) {
	peers, err := request.validate()
	if err != nil {
		return Fault{}, err
	}
	ns, err := s.pods.open(request.PodUID)
	if err != nil {
		return Fault{}, err
	}
	if err := s.checkPeers(ns, peers); err != nil {
		return Fault{}, errors.Join(err, ns.Close())
	}
	id, err := s.take(nil)
	if err != nil {
		return Fault{}, errors.Join(err, ns.Close())
	}
	defer s.untake(id)
	d, err := disturb(ns, mark{Owner: s.self, Fault: id}.String(), peers, request)
	if err != nil {
		return Fault{}, errors.Join(err, ns.Close())
	}
	end := func() error { return errors.Join(d.end(), ns.Close()) }
	f := Fault{PodUID: request.PodUID, What: request.describe(peers)}
	return s.stand(id, standing{Fault: f, end: end, count: d.count}, lease(request.LeaseMS))
}

func (r NetworkRequest) validate() ([]netip.Addr, error) {
	disturbances := 0
	for _, given := range []bool{r.Cut, r.Lose != 0, r.DelayNS != 0 || r.RateBits != 0} {
		if given {
			disturbances++
		}
	}
	switch {
	case disturbances != 1:
		return nil, errs.Usage("set exactly one of cut, lose, and delay_ns with or without rate_bits")
	case r.Lose != 0 && !(r.Lose > 0 && r.Lose < 1):
		return nil, errs.Usage("lose %v: must be above 0 and below 1", r.Lose)
	case r.DelayNS < 0 || r.DelayNS > MaxDelayNS:
		return nil, errs.Usage("delay_ns %d: must be at most %d", r.DelayNS, int64(MaxDelayNS))
	case r.RateBits != 0 && (r.RateBits < MinRateBits || r.RateBits > MaxRateBits):
		return nil, errs.Usage("rate_bits %d: want %d to %d a second", r.RateBits, MinRateBits, int64(MaxRateBits))
	case !slices.Contains([]string{In, Out, Both}, r.Direction):
		return nil, errs.Usage("direction %.40q: want %s, %s or %s", r.Direction, In, Out, Both)
	case len(r.Peers) == 0 || len(r.Peers) > MaxPeers:
		return nil, errs.Usage("peers: %d, want 1 to %d", len(r.Peers), MaxPeers)
	}
	if err := validateLease(r.LeaseMS); err != nil {
		return nil, err
	}
	var peers []netip.Addr
	for i, text := range r.Peers {
		peer, err := netip.ParseAddr(text)
		switch {
		case err != nil || peer.Zone() != "":
			return nil, errs.Usage("peers[%d]: %.60q is not an IP address", i, text)
		case peer.IsLoopback() || peer.IsUnspecified() || peer.IsMulticast():
			return nil, errs.Usage("peers[%d]: %s is not the address of another pod", i, peer)
		}
		if peer = peer.Unmap(); !slices.Contains(peers, peer) {
			peers = append(peers, peer)
		}
	}
	return peers, nil
}

func (r NetworkRequest) describe(peers []netip.Addr) string {
	what := "cut packets"
	switch {
	case r.Lose > 0:
		what = fmt.Sprintf("lose %v of packets", r.Lose)
	case r.DelayNS > 0 && r.RateBits > 0:
		what = fmt.Sprintf("delay packets by %v at %d bit/s", time.Duration(r.DelayNS), r.RateBits)
	case r.DelayNS > 0:
		what = fmt.Sprintf("delay packets by %v", time.Duration(r.DelayNS))
	case r.RateBits > 0:
		what = fmt.Sprintf("limit packets to %d bit/s", r.RateBits)
	}
	way := map[string]string{In: "from", Out: "to", Both: "to and from"}[r.Direction]
	return fmt.Sprintf("%s %s %d peers", what, way, len(peers))
}

// disturbance holds the rules that disturb packets in a namespace, and their queue if
// any.
type disturbance struct {
	rules *rules
	queue *queue
}

func disturb(ns *namespace, name string, peers []netip.Addr, r NetworkRequest) (*disturbance, error) {
	d := &disturbance{}
	a := act{drop: r.Cut, lose: r.Lose}
	var err error
	if r.DelayNS > 0 || r.RateBits > 0 {
		if d.queue, err = openQueue(ns, link{delay: time.Duration(r.DelayNS), rate: r.RateBits}); err != nil {
			return nil, err
		}
		a.queued, a.queue = true, d.queue.number
	}
	if d.rules, err = install(ns, name, peers, r.Direction, a); err != nil {
		if d.queue != nil {
			err = errors.Join(err, d.queue.end())
		}
		return nil, err
	}
	return d, nil
}

// end releases held packets and removes everything.
func (d *disturbance) end() error {
	if d.queue == nil {
		return d.rules.remove()
	}
	err := d.rules.idle()
	return errors.Join(err, d.queue.end(), d.rules.remove())
}

func (d *disturbance) count() (Packets, error) {
	matched, done, err := d.rules.counters()
	p := Packets{Matched: matched, Dropped: done}
	if d.queue != nil {
		p.Dropped, p.Delayed = d.queue.dropped.Load(), d.queue.delayed.Load()
		err = errors.Join(err, d.queue.err())
	}
	return p, err
}
