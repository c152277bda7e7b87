// Package node implements the profile role. On a node, a [Server] finds the
// processes of a container and samples them with the node's perf; elsewhere, a
// [Client] requests a profile from it.
//
// The role can see other users' processes and run a program in the node's mount
// namespace, so callers need a token. It returns a profile in pprof format. It
// judges the names itself because only it has access to the binaries that ran.
package node

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/observe/procfs"
	"github.com/meshtrial/meshtrial/observe/profile"
	"github.com/meshtrial/meshtrial/observe/profile/perf"
)

// ControlPort is the role's port on its pod's loopback.
const ControlPort = 15995

// Limits of requests and responses, in bytes.
const (
	maxRequestBytes = 1 << 20
	maxAnswer       = 256 << 20
)

// maxProfiles limits concurrent profiles.
const maxProfiles = 4

// Request asks for a profile of a container's processes.
type Request struct {
	ContainerID string  `json:"container_id"`
	Hz          int     `json:"hz"`
	Seconds     float64 `json:"s"`
	Graph       string  `json:"graph"` // perf.GraphFP...
}

// Answer is a profile that was taken.
type Answer struct {
	Pprof     []byte           `json:"pprof"`
	Trust     profile.Trust    `json:"trust"`
	Binaries  []profile.Binary `json:"binaries"`
	Seconds   float64          `json:"s"`
	Ended     bool             `json:"ended"` // the processes ended early
	Processes []string         `json:"processes"`
	// BeganUnixNS is when perf started sampling, by the node's clock.
	BeganUnixNS int64 `json:"began_unix_ns"`
}

// Profile parses the profile in the response, and adds what pprof's format
// cannot represent.
func (a Answer) Profile() (*profile.Profile, error) {
	p, err := profile.ReadPprof(bytes.NewReader(a.Pprof))
	if err != nil {
		return nil, err
	}
	p.Binaries = a.Binaries
	return p, nil
}

// Options configures a server.
type Options struct {
	Control  string // loopback address to listen on
	Token    string // required from callers; never empty
	ProcRoot string // default /proc; with the node's PIDs
	Tool     perf.Tool
	Log      *slog.Logger
	Alive    *jsonhttp.Alive // notified of requests with the token; may be nil
}

// Server is the profile role of one node.
type Server struct {
	options  Options
	listener net.Listener
	slots    chan struct{} // of running profiles
}

// New builds a server and opens its listener. The caller must call Serve.
func New(options Options) (*Server, error) {
	options.ProcRoot = cmp.Or(options.ProcRoot, "/proc")
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	if options.Token == "" {
		return nil, errs.Usage("profile role: no token: whoever reaches this server could look at what runs on the node")
	}
	s := &Server{options: options, slots: make(chan struct{}, maxProfiles)}
	var err error
	if s.listener, err = net.Listen("tcp", options.Control); err != nil {
		return nil, errs.WithCode(fmt.Errorf("profile role: control: %w", err), errs.CodeUsage)
	}
	return s, nil
}

// Address returns the listening address of the control server.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Serve handles requests until ctx ends.
func (s *Server) Serve(ctx context.Context) error {
	return jsonhttp.Server{Name: "profile", Handler: s.mux(), MaxRequest: maxRequestBytes,
		Token: s.options.Token, Log: s.options.Log, Alive: s.options.Alive}.Serve(ctx, s.listener)
}

func (s *Server) mux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("POST /v1/profile", func(w http.ResponseWriter, r *http.Request) {
		var request Request
		if !jsonhttp.Read(w, r, &request) {
			return
		}
		answer, err := s.take(r.Context(), request)
		switch {
		case err == nil:
			jsonhttp.Answer(w, answer)
		case errors.Is(err, perf.ErrMissing), errors.Is(err, perf.ErrForbidden):
			jsonhttp.Refuse(w, http.StatusFailedDependency, err)
		case errors.Is(err, perf.ErrGone):
			jsonhttp.Refuse(w, http.StatusNotFound, err)
		case errs.Code(err) == errs.CodeUsage:
			jsonhttp.Refuse(w, http.StatusBadRequest, err)
		default:
			jsonhttp.Refuse(w, http.StatusInternalServerError, err)
		}
	})
	return mux
}

// take waits for a slot and takes one profile.
func (s *Server) take(ctx context.Context, request Request) (Answer, error) {
	var out Answer
	if request.Seconds <= 0 || request.Seconds > perf.MaxSeconds {
		return out, errs.Usage("a profile of %g s, it must be above 0 and at most %d s", request.Seconds, perf.MaxSeconds)
	}
	if _, err := Processes(s.options.ProcRoot, request.ContainerID); err != nil {
		return out, err // do not wait
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return out, ctx.Err()
	}
	// The container may have different processes by now, and their PIDs may
	// have been reused.
	processes, err := Processes(s.options.ProcRoot, request.ContainerID)
	if err != nil {
		return out, err
	}
	o := perf.Options{Hz: request.Hz, Graph: request.Graph, Length: time.Duration(request.Seconds * float64(time.Second))}
	for _, p := range processes {
		o.PIDs = append(o.PIDs, p.PID)
		out.Processes = append(out.Processes, fmt.Sprintf("%d %s", p.PID, p.Name))
	}
	o.Started = func() { out.BeganUnixNS = time.Now().UnixNano() }
	recording, err := s.options.Tool.Record(ctx, o)
	if err != nil {
		return out, err
	}
	// Judge keeps offsets because the caller may have debug files.
	out.Trust = recording.Profile.Judge(recording.Files)
	out.Binaries, out.Seconds, out.Ended = recording.Profile.Binaries, recording.Seconds, recording.Ended
	var b bytes.Buffer
	if err := recording.Profile.WritePprof(&b); err != nil {
		return out, err
	}
	out.Pprof = b.Bytes()
	return out, nil
}

// Process is a process of a container.
type Process struct {
	PID  int
	Name string
}

// Processes lists a container's processes by cgroup. The error wraps
// [perf.ErrGone] if there are none.
func Processes(procRoot, containerID string) ([]Process, error) {
	match, err := procfs.ContainerCgroup(containerID)
	if err != nil {
		return nil, errs.WithCode(err, errs.CodeUsage)
	}
	pids, err := procfs.PIDs(os.DirFS(procRoot))
	if err != nil {
		return nil, err
	}
	var out []Process
	for _, pid := range pids {
		dir := filepath.Join(procRoot, strconv.Itoa(pid))
		cgroup, err := os.ReadFile(filepath.Join(dir, "cgroup"))
		if err != nil || !procfs.InCgroup(cgroup, match) {
			continue // it has ended, or belongs to another container
		}
		name, _ := os.ReadFile(filepath.Join(dir, "comm"))
		out = append(out, Process{pid, strings.TrimSpace(string(name))})
	}
	if len(out) == 0 {
		return nil, errs.WithHint(fmt.Errorf("container %.20s: %w", containerID, perf.ErrGone),
			"is the container running, and on this node?")
	}
	slices.SortFunc(out, func(a, b Process) int { return a.PID - b.PID })
	return out, nil
}

// Client calls one node's profile role.
type Client struct {
	HTTPClient *http.Client // must have no timeout shorter than a profile
	BaseURL    string
	Token      string
}

// Take takes a profile.
func (c Client) Take(ctx context.Context, request Request) (Answer, error) {
	var out Answer
	err := c.json().Do(ctx, http.MethodPost, "/v1/profile", request, &out)
	return out, err
}

// Ready checks that the role responds.
func (c Client) Ready(ctx context.Context) error {
	body, err := c.json().Stream(ctx, "/healthz")
	if err != nil {
		return err
	}
	return body.Close()
}

func (c Client) json() jsonhttp.Client {
	return jsonhttp.Client{HTTPClient: c.HTTPClient, BaseURL: c.BaseURL, Name: "profile",
		MaxAnswer: maxAnswer, Token: c.Token}
}
