// Command overload offers a server of known capacity more than it can handle, over HTTP/1.1 and
// HTTP/2, and compares the window's figures with the server's own record:
//
//	rate   achieved_rps, compared with the server's answers between the edges
//	CPU    the server's CPU between the edges per request answered between them, compared
//	       with its CPU per request over the whole run, in which it answers every request
//
// The server handles one request at a time and computes for as long as its capacity implies. It
// needs a core to itself, and so does the generator.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/bench/internal/child"
	"github.com/meshtrial/meshtrial/bench/internal/table"
	"github.com/meshtrial/meshtrial/drive/load"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/observe/procfs"
	"github.com/meshtrial/meshtrial/record/rate"
	"github.com/meshtrial/meshtrial/study/protocol"
	"golang.org/x/sys/unix"
)

const (
	serverMode = "server"
	service    = 4830 * time.Microsecond
	capacity   = float64(time.Second) / float64(service) // requests a second: 207
	limit      = 3.0                                     // maximum error of a figure, in percent
	interval   = 250 * time.Millisecond
	warmup     = 2 * time.Second
)

func main() {
	var rounds int
	var window time.Duration
	table.Program{
		Name: "overload",
		Roles: map[string]table.Role{serverMode: func(ctx context.Context, in io.Reader, out io.Writer) error {
			return child.Serve(ctx, in, out, serve)
		}},
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&rounds, "rounds", 3, "rounds of each case")
			f.DurationVar(&window, "window", 5*time.Second, "length of the window")
		},
		Title: func() string {
			return fmt.Sprintf("overload of a server of %.0f requests/s, windows of %v", capacity, window)
		},
		Parts: []table.Part{{Name: "overload", Run: func(ctx context.Context) ([]table.Row, error) { return all(ctx, rounds, window) }}},
	}.Main()
}

func all(ctx context.Context, rounds int, window time.Duration) (rows []table.Row, err error) {
	// The server is killed when the thread that started it ends, as an event loop's thread
	// does.
	runtime.LockOSThread()
	for _, proto := range []string{protocol.HTTP1, protocol.HTTP2} {
		for _, offered := range []float64{0.8, 1.05, 1.2, 1.5, 2} {
			name := fmt.Sprintf("%s, %g times the capacity: ", proto, offered)
			runs, err := table.Rounds(name, rounds, 1, func(int) (figures, error) { return measure(ctx, proto, offered, window) })
			if err != nil {
				return rows, err
			}
			row := func(what, unit string, of func(figures) float64) table.Row {
				return table.Of(name+what, unit, table.Each(runs[0], of)...)
			}
			rows = append(rows, row("achieved rate off by", "%", func(f figures) float64 { return f.rateOff }).AtMost(limit),
				row("CPU per request off by", "%", func(f figures) float64 { return f.cpuOff }).AtMost(limit),
				row("backlog grew by", "requests", func(f figures) float64 { return f.backlog }))
		}
	}
	return rows, nil
}

// figures are the results of one run: errors in percent, and requests.
type figures struct{ rateOff, cpuOff, backlog float64 }

func measure(ctx context.Context, proto string, offered float64, window time.Duration) (out figures, err error) {
	server, err := child.Start(ctx, serverMode)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	spec := load.DefaultSpec("http://" + server.Address + "/")
	spec.Protocol, spec.Rate, spec.Connections = proto, rate.Rate(capacity*offered), 16
	spec.DurationS, spec.IntervalS = (warmup + window).Seconds(), interval.Seconds()
	spec.DrainS, spec.TimeoutS = 120, 120
	begun, err := cpuOf(server.PID)
	if err != nil {
		return out, err
	}
	running, err := load.Start(ctx, spec, nil)
	if err != nil {
		return out, err
	}
	var used [2]float64
	edges := [2]time.Time{running.Epoch.Add(warmup), running.Epoch.Add(warmup + window)}
	for i, at := range edges {
		if err := wake.Pause(ctx, time.Until(at)); err != nil {
			return out, err
		}
		if used[i], err = cpuOf(server.PID); err != nil {
			return out, err
		}
	}
	result, err := running.Result(ctx)
	if err != nil {
		return out, err
	}
	ended, err := cpuOf(server.PID)
	if err != nil {
		return out, err
	}
	total := result.Total()
	w, err := result.Window(int(warmup/interval), int((warmup+window)/interval))
	if err != nil {
		return out, err
	}
	if total.Completed != total.Scheduled {
		return out, fmt.Errorf("%s at %g times the capacity: %d of %d requests completed: %v", proto, offered, total.Completed, total.Scheduled, total.Failed)
	}
	truth, err := answers(ctx, server.Address, edges)
	if err != nil {
		return out, err
	}
	off := func(got, want float64) float64 { return math.Abs(got/want-1) * 100 }
	got := w.Record(spec.Rate)
	return figures{
		rateOff: off(got.AchievedRPS, truth/window.Seconds()),
		cpuOff:  off((used[1]-used[0])/float64(got.AnsweredWithin()), (ended-begun)/float64(total.Completed)),
		backlog: float64(got.Within.BacklogEnd - got.Within.BacklogStart),
	}, nil
}

// cpuOf returns the CPU time of a process so far, in seconds.
func cpuOf(pid int) (float64, error) {
	p, err := procfs.ReadProcess(pid)
	return float64(p.User+p.System) * procfs.TickNS / 1e9, err
}

// answers asks the server for the number of its answers between two instants.
func answers(ctx context.Context, address string, edges [2]time.Time) (float64, error) {
	url := fmt.Sprintf("http://%s/answers?from=%d&to=%d", address, edges[0].UnixNano(), edges[1].UnixNano())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(string(text), 64)
}

// compute uses the CPU time of a request: interruptions by a busy machine do not make it
// cheaper.
func compute() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var begin, now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &begin) // never fails
	for now = begin; now.Nano()-begin.Nano() < int64(service); {
		_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now)
	}
}

// serve serves one request at a time.
func serve(ctx context.Context, l net.Listener) error {
	var mu sync.Mutex
	var ended []int64
	mux := http.NewServeMux()
	mux.HandleFunc("/answers", func(w http.ResponseWriter, r *http.Request) {
		from, _ := strconv.ParseInt(r.URL.Query().Get("from"), 10, 64)
		to, _ := strconv.ParseInt(r.URL.Query().Get("to"), 10, 64)
		mu.Lock()
		defer mu.Unlock()
		n := 0
		for _, at := range ended {
			if at >= from && at < to {
				n++
			}
		}
		fmt.Fprint(w, n)
	})
	mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		compute()
		ended = append(ended, time.Now().UnixNano())
	})
	server := &http.Server{Handler: mux, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
