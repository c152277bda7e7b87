package observe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/internal/wallclock"
	"github.com/meshtrial/meshtrial/observe/procfs"
	"github.com/meshtrial/meshtrial/record/probe"
)

// maxRequestBytes and maxRequests bound the cost of requests.
const (
	maxRequestBytes = 4 << 20
	maxRequests     = 16 // concurrent
)

// Options tells a server where to find the node's files.
type Options struct {
	Control    string // loopback address to listen on; there is no access control
	CgroupRoot string // default /sys/fs/cgroup
	ProcRoot   string // default /proc; with the node's PIDs
	Root       string // default /; contains the node's /sys/devices and /etc
	Log        *slog.Logger
	Alive      *jsonhttp.Alive // notified of requests; may be nil
	Version    string          // of the program
	// Clock reads the node's clocks; the default is wallclock.Now.
	Clock func() wallclock.Reading
}

// Server is the observe role of one node.
type Server struct {
	options  Options
	finder   *finder
	timer    *wake.Timer
	listener net.Listener
	places   chan struct{}
}

// New builds a server and opens its listener. The caller must call Serve.
func New(options Options) (*Server, error) {
	options.CgroupRoot = cmp.Or(options.CgroupRoot, "/sys/fs/cgroup")
	options.ProcRoot = cmp.Or(options.ProcRoot, "/proc")
	options.Root = cmp.Or(options.Root, "/")
	if options.Clock == nil {
		options.Clock = wallclock.Now
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{options: options, places: make(chan struct{}, maxRequests)}
	var err error
	if s.finder, err = newFinder(options.CgroupRoot); err != nil {
		return nil, errs.WithHint(errs.WithCode(err, errs.CodeUsage), "give the place where the node's /sys/fs/cgroup is mounted with --cgroup-root")
	}
	if _, err := os.Stat(filepath.Join(options.ProcRoot, "stat")); err != nil {
		return nil, errs.WithHint(errs.WithCode(fmt.Errorf("observe: %w", err), errs.CodeUsage), "give the place of the node's /proc with --proc-root")
	}
	if s.timer, err = wake.New(); err != nil {
		return nil, fmt.Errorf("observe: %w", err)
	}
	if s.listener, err = net.Listen("tcp", options.Control); err != nil {
		s.timer.Close()
		return nil, errs.WithCode(fmt.Errorf("observe: control: %w", err), errs.CodeUsage)
	}
	return s, nil
}

// Address returns the listening address of the control server.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Serve handles requests until ctx ends, and then cancels pending snapshots.
// When it returns, everything the server owns has ended.
func (s *Server) Serve(ctx context.Context) error {
	defer s.timer.Close()
	return jsonhttp.Server{Name: "observe", Handler: s.mux(), MaxRequest: maxRequestBytes, Log: s.options.Log, Alive: s.options.Alive}.Serve(ctx, s.listener)
}

func (s *Server) mux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	jsonhttp.HandleClock(mux)
	jsonhttp.HandleVersion(mux, s.options.Version)
	mux.HandleFunc("GET /v1/machine", func(w http.ResponseWriter, r *http.Request) {
		jsonhttp.Answer(w, procfs.Machine(os.DirFS(s.options.Root)))
	})
	mux.HandleFunc("POST /v1/snapshots", s.serve)
	return mux
}

// serve takes the snapshots of a request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	var request SnapshotsRequest
	if !jsonhttp.Read(w, r, &request) {
		return
	}
	now := s.frame(request)
	if len(request.AtUnixNS) == 0 {
		request.AtUnixNS = []int64{now.ns()}
	}
	if err := validate(request, now.ns()); err != nil {
		jsonhttp.Refuse(w, http.StatusBadRequest, err)
		return
	}
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	default:
		err := fmt.Errorf("%d snapshot requests are under way", maxRequests)
		jsonhttp.Refuse(w, http.StatusTooManyRequests, errs.WithHint(err, "wait for one to end"))
		return
	}
	snapshots, err := s.take(r.Context(), request, now)
	switch {
	case errors.Is(err, errNotFound):
		jsonhttp.Refuse(w, http.StatusNotFound, errs.WithHint(err, "is the container running, and on this node?"))
	case err != nil:
		jsonhttp.Refuse(w, http.StatusInternalServerError, err)
	default:
		jsonhttp.Answer(w, SnapshotsAnswer{Snapshots: snapshots})
	}
}

// validate checks a request without accessing the node.
func validate(request SnapshotsRequest, now int64) error {
	switch {
	case len(request.Targets) > MaxTargets:
		return fmt.Errorf("targets: %d, the limit is %d", len(request.Targets), MaxTargets)
	case len(request.AtUnixNS) > MaxInstants:
		return fmt.Errorf("at_unix_ns: %d instants, the limit is %d", len(request.AtUnixNS), MaxInstants)
	case len(request.AtUnixNS)*max(len(request.Targets), 1) > 1_000_000:
		return fmt.Errorf("at_unix_ns: %d instants of %d targets are too many samples for one answer", len(request.AtUnixNS), len(request.Targets))
	}
	latest := now + int64(MaxWaitS*time.Second)
	for i, at := range request.AtUnixNS {
		if i > 0 && at <= request.AtUnixNS[i-1] {
			return fmt.Errorf("at_unix_ns[%d] is not later than the one before", i)
		}
		if at > latest {
			return fmt.Errorf("at_unix_ns[%d] is more than %d s ahead of the node's clock", i, MaxWaitS)
		}
	}
	if request.Edge != Begin && request.Edge != End {
		return fmt.Errorf("edge: %q is none of a window, which has %q and %q", request.Edge, Begin, End)
	}
	for i, name := range request.Probes {
		if _, ok := probe.Of(name); !ok {
			return fmt.Errorf("probes[%d]: there is no probe %q", i, name)
		}
	}
	names := map[string]bool{}
	for i, target := range request.Targets {
		if target.Name == "" || names[target.Name] {
			return fmt.Errorf("targets[%d]: the name %q is empty or taken", i, target.Name)
		}
		names[target.Name] = true
		if _, _, err := matcher(target); err != nil {
			return fmt.Errorf("targets[%d]: %w", i, err)
		}
	}
	return nil
}

// frame is the clock of a request's instants and of the times in its answer.
type frame struct {
	clock     func() wallclock.Reading
	steppedNS int64
}

// frame returns the clock of a request that arrives now.
func (s *Server) frame(request SnapshotsRequest) frame {
	if request.SteppedNS != nil {
		return frame{s.options.Clock, *request.SteppedNS}
	}
	return frame{s.options.Clock, s.options.Clock().SteppedNS()}
}

// ns returns the current time. It is never stepped.
func (f frame) ns() int64 { return f.clock().SteadyNS + f.steppedNS }

// take waits for each instant and takes a sample at it.
func (s *Server) take(ctx context.Context, request SnapshotsRequest, now frame) ([]Snapshot, error) {
	readers := make([]*reader, len(request.Targets))
	defer func() {
		for _, r := range readers {
			if r != nil {
				r.close()
			}
		}
	}()
	for i, target := range request.Targets {
		var err error
		readers[i], err = s.finder.open(target)
		switch {
		case target.MayEnd && errors.Is(err, errNotFound):
			readers[i] = &reader{finder: s.finder, gone: err}
		case err != nil:
			return nil, err
		}
	}
	machine, err := openMachine(s.options.ProcRoot, s.finder)
	if err != nil {
		return nil, err
	}
	defer machine.close()
	snapshots := make([]Snapshot, 0, len(request.AtUnixNS))
	around, err := s.before(ctx, request, readers, now)
	if err != nil {
		return nil, err
	}
	for i, at := range request.AtUnixNS {
		if err := s.waitUntil(ctx, now, at); err != nil {
			return nil, fmt.Errorf("waiting for at_unix_ns[%d]: %w", i, err)
		}
		first, last := i == 0, i == len(request.AtUnixNS)-1
		snapshot, samples, err := sampleAll(readers, machine, at, now)
		if err != nil {
			return nil, err
		}
		if last && !request.begins() {
			around = s.around(request, readers, now)
		}
		if first || last {
			snapshot.Processes, snapshot.ProcessesNS = around.processes, around.at
			for i, threads := range around.threads {
				samples[i].Threads = threads
			}
			for i, r := range readers {
				s.addDetails(request, r, &samples[i], last)
			}
		}
		for i, target := range request.Targets {
			snapshot.Targets[target.Name] = samples[i]
		}
		snapshots = append(snapshots, snapshot)
	}
	return snapshots, nil
}

// waitUntil waits for an instant of the request's clock.
func (s *Server) waitUntil(ctx context.Context, now frame, at int64) error {
	for {
		wait := time.Duration(at - now.ns())
		if wait <= 0 {
			return ctx.Err()
		}
		if err := s.timer.Until(ctx, time.Now().Add(wait)); err != nil {
			return err
		}
	}
}

// sampleAll reads the CPU counters of all targets, then those of the machine. The samples of the targets are in
// their order, and not yet in the snapshot.
func sampleAll(readers []*reader, machine *machineReader, at int64, now frame) (Snapshot, []Sample, error) {
	snapshot := Snapshot{AtUnixNS: at, StartNS: now.ns(), SteppedNS: now.steppedNS, Targets: make(map[string]Sample, len(readers))}
	samples := make([]Sample, len(readers))
	for i, r := range readers {
		cpu, err := r.cpu()
		samples[i] = Sample{AtUnixNS: now.ns(), CPU: cpu}
		if err != nil {
			samples[i].Error = fmt.Sprintf("its cgroup cannot be read any more: %v", err)
		}
	}
	var err error
	snapshot.Machine, err = machine.sample(now)
	snapshot.EndNS = now.ns()
	return snapshot, samples, err
}

// around holds what is read shortly before the first instant and after the last,
// because reading it takes long.
type around struct {
	threads   []*ThreadsSample // in the order of the targets
	processes []ProcessSample
	at        int64 // when they were read
}

// begins reports whether a request has a single instant that is not a window's
// end.
func (r SnapshotsRequest) begins() bool { return len(r.AtUnixNS) == 1 && r.Edge != End }

// before reads around ahead of the first instant, unless that is a window's end.
func (s *Server) before(ctx context.Context, request SnapshotsRequest, readers []*reader, now frame) (around, error) {
	if !request.Threads && !request.Processes || len(request.AtUnixNS) == 1 && !request.begins() {
		return around{}, nil
	}
	if err := s.waitUntil(ctx, now, request.AtUnixNS[0]-int64(threadsLead)); err != nil {
		return around{}, fmt.Errorf("waiting for at_unix_ns[0]: %w", err)
	}
	return s.around(request, readers, now), nil
}

// around reads it now.
func (s *Server) around(request SnapshotsRequest, readers []*reader, now frame) (out around) {
	if request.Threads {
		out.threads = make([]*ThreadsSample, len(readers))
		for i, r := range readers {
			out.threads[i] = r.threads(s.options.ProcRoot, now)
		}
	}
	if request.Processes {
		parts := map[int]bool{}
		for _, r := range readers {
			pids, err := r.processes()
			if err != nil {
				continue // it has ended
			}
			for _, pid := range pids {
				parts[pid] = true
			}
		}
		out.at, out.processes = now.ns(), Processes(s.options.ProcRoot, parts)
	}
	return out
}

// addDetails adds to a target's sample what is read after the CPU counters of all: probes, and, if memory was
// requested, sockets, and at the last instant the memory.
func (s *Server) addDetails(request SnapshotsRequest, r *reader, sample *Sample, last bool) {
	if sample.Error != "" {
		return
	}
	if request.Memory {
		sample.Net = r.net(s.options.ProcRoot)
		if last {
			sample.Memory = r.memory(s.options.ProcRoot)
		}
	}
	for _, name := range request.Probes {
		p, _ := probe.Of(name)
		if counted := r.probe(s.options.ProcRoot, p); counted != nil {
			if sample.Probed == nil {
				sample.Probed = map[string]uint64{}
			}
			maps.Copy(sample.Probed, counted)
		}
	}
}
