package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
)

// maxRequestBytes limits the size of a request's body.
const maxRequestBytes = 1 << 20

// Options configures a server.
type Options struct {
	Control  string // loopback address to listen on
	Token    string // that callers must send; never empty
	ProcRoot string // default /proc; with the node's PIDs
	// Cgroups is where the node's cgroups are mounted; default: /sys/fs/cgroup of the
	// node's first process, because a container may see only a part, or see it read-only.
	Cgroups string
	// Node has the node's own addresses, which are never disturbed: the kubelet's
	// probes use them.
	Node  []netip.Addr
	Log   *slog.Logger
	Alive *jsonhttp.Alive // notified of requests with the token; nil: no notifications
}

// Server is the fault role of one node.
type Server struct {
	options   Options
	processes processes
	pods      podCache
	self      Process // this process, for its marks
	listener  net.Listener

	mu     sync.Mutex
	next   uint64
	faults map[uint64]*standing
	// taken are processes about to be stopped, by fault.
	taken map[uint64][]Process
}

// New builds a server, repairs what a killed server left on the node, and opens the
// listener. The caller must call Serve.
func New(options Options) (*Server, error) {
	options.ProcRoot = cmp.Or(options.ProcRoot, "/proc")
	options.Cgroups = cmp.Or(options.Cgroups, filepath.Join(options.ProcRoot, "1", "root", "sys", "fs", "cgroup"))
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	if options.Token == "" {
		return nil, errs.Usage("fault: no token: anyone who reaches this server could kill processes on the node")
	}
	s := &Server{options: options, processes: processes{options.ProcRoot}, faults: map[uint64]*standing{}, taken: map[uint64][]Process{}}
	s.pods.processes = s.processes
	me, err := s.processes.stat(os.Getpid())
	if err != nil {
		return nil, errs.WithHint(errs.WithCode(fmt.Errorf("fault: %w", err), errs.CodeUsage), "give the path of the node's /proc with --proc-root")
	}
	s.self = Process{PID: me.PID, StartTicks: me.StartTime}
	if err := s.putRight(); err != nil {
		return nil, fmt.Errorf("fault: revert what an earlier server left: %w", err)
	}
	if s.listener, err = net.Listen("tcp", options.Control); err != nil {
		return nil, errs.WithCode(fmt.Errorf("fault: control: %w", err), errs.CodeUsage)
	}
	return s, nil
}

// Address is where the control server listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Serve answers requests until ctx ends, and then reverts every fault. The error joins what
// could not be reverted.
func (s *Server) Serve(ctx context.Context) error {
	inner, cancel := context.WithCancel(ctx)
	var expiry sync.WaitGroup
	expiry.Go(func() { s.expire(inner) })
	err := jsonhttp.Server{Name: "fault", Handler: s.mux(), MaxRequest: maxRequestBytes, Token: s.options.Token, Log: s.options.Log, Alive: s.options.Alive}.Serve(inner, s.listener)
	cancel()
	expiry.Wait()
	return errors.Join(err, s.undoAll(func(*standing) bool { return true }))
}

func (s *Server) mux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	jsonhttp.HandleClock(mux)
	handle(mux, "POST /v1/processes", func(_ *http.Request, c Container) ([]Process, error) { return s.processes.container(c) })
	handle(mux, "POST /v1/prepare", func(_ *http.Request, c Container) (jsonhttp.None, error) {
		ns, err := s.pods.open(c.PodUID)
		if err == nil {
			err = ns.Close()
		}
		return jsonhttp.None{}, err
	})
	handle(mux, "POST /v1/look", func(_ *http.Request, all []Process) ([]Process, error) { return s.processes.look(all), nil })
	handle(mux, "POST /v1/signal", func(r *http.Request, in SignalRequest) (Fault, error) { return s.signal(r.Context(), in) })
	handle(mux, "POST /v1/network", func(_ *http.Request, in NetworkRequest) (Fault, error) { return s.network(in) })
	handle(mux, "GET /v1/faults", func(*http.Request, jsonhttp.None) ([]Fault, error) { return s.list(), nil })
	handle(mux, "GET /v1/faults/{id}", func(r *http.Request, _ jsonhttp.None) (Fault, error) {
		f, err := s.find(r.PathValue("id"))
		if err != nil {
			return Fault{}, err
		}
		return f.now()
	})
	handle(mux, "POST /v1/faults/{id}", func(r *http.Request, in ExtendRequest) (Fault, error) { return s.extend(r.PathValue("id"), in) })
	handle(mux, "DELETE /v1/faults/{id}", func(r *http.Request, _ jsonhttp.None) (Fault, error) { return s.undo(r.PathValue("id"), nil) })
	handle(mux, "GET /v1/offers", func(*http.Request, jsonhttp.None) ([]Offer, error) { return s.offers(), nil })
	return mux
}

// handle is [jsonhttp.Handle] with the status of this package's errors.
func handle[In, Out any](mux *http.ServeMux, pattern string, do func(*http.Request, In) (Out, error)) {
	jsonhttp.Handle(mux, pattern, func(r *http.Request, in In) (Out, error) {
		out, err := do(r, in)
		switch {
		case errors.Is(err, errNotFound):
			err = jsonhttp.WithStatus(http.StatusNotFound, err)
		case errors.Is(err, errBusy):
			err = jsonhttp.WithStatus(http.StatusConflict, err)
		case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
			err = jsonhttp.WithStatus(http.StatusInternalServerError,
				errs.WithHint(err, "the role needs CAP_KILL, CAP_NET_ADMIN, CAP_SYS_ADMIN and CAP_SYS_PTRACE"))
		}
		return out, err
	})
}

// errBusy is wrapped when another fault prevents one.
var errBusy = errors.New("another active fault conflicts")

// take returns the number of a new fault, and reserves the processes that it will stop.
// untake must follow.
func (s *Server) take(stop []Process) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.faults)+len(s.taken) >= MaxFaults {
		return 0, fmt.Errorf("%d faults are active: %w", len(s.faults), errBusy)
	}
	clash := func(others []Process) bool {
		return slices.ContainsFunc(others, func(o Process) bool {
			return slices.ContainsFunc(stop, func(p Process) bool { return p.PID == o.PID && p.StartTicks == o.StartTicks })
		})
	}
	for _, others := range s.taken {
		if clash(others) {
			return 0, fmt.Errorf("%s is being stopped: %w", describe(others), errBusy)
		}
	}
	for id, f := range s.faults {
		if clash(f.Processes) {
			return 0, fmt.Errorf("fault %d, %s: %w", id, f.What, errBusy)
		}
	}
	s.next++
	s.taken[s.next] = stop
	return s.next, nil
}

func (s *Server) untake(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.taken, id)
}

// now returns the fault with its counters.
func (f *standing) now() (Fault, error) {
	out := f.Fault
	if f.count == nil {
		return out, nil
	}
	p, err := f.count()
	out.Packets = &p
	return out, err
}

// find returns a copy of a fault in force.
func (s *Server) find(id string) (standing, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := s.get(id)
	if err != nil {
		return standing{}, err
	}
	return *f, nil
}

// get returns a fault in force. s.mu is held.
func (s *Server) get(id string) (*standing, error) {
	n, err := strconv.ParseUint(id, 10, 64)
	if f := s.faults[n]; err == nil && f != nil {
		return f, nil
	}
	return nil, fmt.Errorf("no active fault %.40q: %w", id, errNotFound)
}

// list returns the faults in force, the oldest first.
func (s *Server) list() []Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []Fault{}
	for _, f := range s.faults {
		out = append(out, f.Fault)
	}
	slices.SortFunc(out, func(a, b Fault) int { return int(a.BeganNS - b.BeganNS) })
	return out
}

// undo reverts a fault, if over (nil: always) still holds when the fault is unregistered:
// its lease may have been extended. Of several callers, one reverts it.
func (s *Server) undo(id string, over func(*standing) bool) (Fault, error) {
	f, err := s.find(id)
	if err != nil {
		return Fault{}, err
	}
	out, counted := f.now() // best effort: reverting matters more
	n, _ := strconv.ParseUint(id, 10, 64)
	s.mu.Lock()
	there, mine := s.faults[n]
	if mine && over != nil && !over(there) {
		s.mu.Unlock()
		return out, nil
	}
	delete(s.faults, n)
	s.mu.Unlock()
	if !mine {
		return Fault{}, fmt.Errorf("fault %s has just ended: %w", id, errNotFound)
	}
	if counted != nil {
		s.options.Log.Warn("fault is not counted", "id", id, "error", counted)
	}
	if err := f.end(); err != nil {
		s.options.Log.Error("fault was not reverted", "id", id, "error", err)
		return out, fmt.Errorf("revert fault %s: %w", id, err)
	}
	s.options.Log.Info("fault ends", "id", id, "what", f.What)
	return out, nil
}

// undoAll reverts the faults for which over is true, the latest first.
func (s *Server) undoAll(over func(*standing) bool) error {
	s.mu.Lock()
	var ids []uint64
	for id, f := range s.faults {
		if over(f) {
			ids = append(ids, id)
		}
	}
	s.mu.Unlock()
	slices.Sort(ids)
	var failed []error
	for _, id := range slices.Backward(ids) {
		if _, err := s.undo(strconv.FormatUint(id, 10), over); err != nil && !errors.Is(err, errNotFound) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// checkPeers rejects addresses by which the pod is controlled: its own, its node's and its
// gateway's.
func (s *Server) checkPeers(ns *namespace, peers []netip.Addr) error {
	handle, err := netlink.NewHandleAt(netns.NsHandle(ns.Fd()))
	if err != nil {
		return fmt.Errorf("the pod's addresses: %w", err)
	}
	defer handle.Close()
	kept := map[netip.Addr]string{}
	for _, address := range s.options.Node {
		kept[address.Unmap()] = "the node's"
	}
	addresses, err := handle.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("the pod's addresses: %w", err)
	}
	for _, a := range addresses {
		if ip, ok := netip.AddrFromSlice(a.IP); ok {
			kept[ip.Unmap()] = "the pod's own"
		}
	}
	routes, err := handle.RouteList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("the pod's routes: %w", err)
	}
	for _, r := range routes {
		if ip, ok := netip.AddrFromSlice(r.Gw); ok {
			kept[ip.Unmap()] = "its gateway's"
		}
	}
	for _, peer := range peers {
		if whose := kept[peer]; whose != "" {
			return errs.Usage("peer %s is %s address, over which probes come", peer, whose)
		}
	}
	return nil
}
