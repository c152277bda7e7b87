package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/bench/internal/child"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/testing/runtest"
	"github.com/meshtrial/meshtrial/ui/live"
)

// Roles of this program beside the bench: a run, with or without a page, and `meshtrial page`.
const (
	roleRun   = "run"
	rolePages = "pages"
)

const (
	recorded = "data-plane"
	// A trial as in the study quick, from its beginning to the next one's.
	warming, window, collecting = 1200 * time.Millisecond, 800 * time.Millisecond, 300 * time.Millisecond
	// poll and settle are those of the commands (cli/page.go).
	poll, settle = 2 * time.Second, 50 * time.Millisecond
)

const studyText = `name: page
question: What does a page cost?
settings: {rate: 200, connections: 4}
factors: {sidecars: [none, both]}
measures: [latency, cpu, memory, threads, network]
blocks: {min: 400, max: 400, limit: 24h}
seed: 5
`

// order is what a process is started with.
type order struct {
	Dir    string
	Trials int
	Page   bool
}

// spending is what a run's process used.
type spending struct {
	All, Windows spent
	Writes       int64 // to readers in windows
}

// serveRun carries out a run once the bench says so.
func serveRun(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	from, to := json.NewDecoder(in), json.NewEncoder(out)
	var o order
	if err := from.Decode(&o); err != nil {
		return err
	}
	w, err := runtest.Repeat(recorded, o.Dir, []byte(studyText), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	pages, err := app.NewPages(nil)
	if err != nil {
		return err
	}
	address, writes := "", new(atomic.Int64)
	if o.Page {
		var stop func() error
		if address, stop, err = serve(ctx, pages, 0, writes); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	fmt.Fprintln(out, address)
	if err := from.Decode(new(string)); err != nil { // "go"
		return err
	}
	options := app.RunOptions{Study: w.Plan.Study, Progress: silent{}, Present: func(app.Analyzed) error { return nil },
		Begun: func(string) {}, Kept: func(context.Context) error { return nil }}
	var result spending
	work := func(ctx context.Context, o2 *app.RunOptions) (err error) {
		result, err = carryOut(ctx, w, o, o2, writes)
		return err
	}
	if o.Page {
		err = pages.Follow(ctx, &options, work)
	} else {
		err = work(ctx, &options)
	}
	if err != nil {
		return err
	}
	return to.Encode(result)
}

// carryOut does what a runner does, without a lab.
func carryOut(ctx context.Context, w *runtest.Writer, o order, to *app.RunOptions, writes *atomic.Int64) (spending, error) {
	tell := func(e runner.Event) {
		if to.Event != nil {
			to.Event(w.Plan, e)
		}
	}
	own := func() time.Duration { return cpuOf(0) }
	var all, windows spent
	all.begin(own)
	sent := int64(0)
	to.Begun(o.Dir)
	for i := range o.Trials {
		size := w.Plan.BlockSize()
		trial := runner.Event{Stage: "trial", Block: i / size, Trial: i%size + 1, Trials: size, Cell: "both"}
		tell(trial)
		if err := wake.Pause(ctx, warming); err != nil {
			return spending{}, err
		}
		tell(runner.Event{Stage: runner.StageWarming, Text: "p50 0.42 ms after 1.0 s"})
		loud := runner.Quiet(tell)
		windows.begin(own)
		before := writes.Load()
		if err := wake.Pause(ctx, window); err != nil {
			return spending{}, err
		}
		windows.end(own)
		sent += writes.Load() - before
		loud()
		if err := wake.Pause(ctx, collecting); err != nil {
			return spending{}, err
		}
		done, err := w.Next()
		if err != nil {
			return spending{}, err
		}
		trial.Record = &done
		tell(trial)
		if err := to.Kept(ctx); err != nil {
			return spending{}, err
		}
	}
	analyzed, err := app.Analyze(ctx, o.Dir)
	if err == nil {
		err = to.Present(analyzed)
	}
	all.end(own)
	return spending{all, windows, sent}, err
}

// servePages serves the pages of a folder until its input ends.
func servePages(ctx context.Context, in io.Reader, out io.Writer) error {
	from := json.NewDecoder(in)
	var o order
	if err := from.Decode(&o); err != nil {
		return err
	}
	pages, err := app.NewPages([]string{o.Dir})
	if err != nil {
		return err
	}
	address, stop, err := serve(ctx, pages, poll, new(atomic.Int64))
	if err != nil {
		return err
	}
	fmt.Fprintln(out, address)
	_, _ = io.Copy(io.Discard, in) // waits for the end
	return stop()
}

// serve serves pages, and counts the writes to readers.
func serve(ctx context.Context, pages *app.Pages, poll time.Duration, writes *atomic.Int64) (entrance string, stop func() error, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server, path := live.New(pages, poll)
	pages.Settle = func() { server.Settle(settle) }
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, counted{l, writes}) }()
	return "http://" + l.Addr().String() + path, func() error {
		cancel()
		return <-served
	}, nil
}

// counted counts the writes to all its connections.
type counted struct {
	net.Listener
	writes *atomic.Int64
}

func (c counted) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	return countedConn{conn, c.writes}, err
}

type countedConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c countedConn) Write(data []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(data)
}

// process is such a process of this program, and its readers.
type process struct {
	*child.Process
	stop context.CancelFunc // of the readers
}

func start(ctx context.Context, role string, o order) (*process, error) {
	p, err := child.Start(ctx, role, o)
	return &process{p, func() {}}, err
}

func (p *process) cpu() time.Duration { return cpuOf(p.PID) }

// result has a run begin, and waits for what it spent.
func (p *process) result(to *spending) error {
	return errors.Join(json.NewEncoder(p.In).Encode("go"), json.NewDecoder(p.Out).Decode(to))
}

func (p *process) close() error {
	p.stop()
	return p.Close()
}

// read opens a page for each query, as browsers do: a reader has the first document, and the next
// whenever its version changes. The query "first" is that of the index's first run.
func (p *process) read(ctx context.Context, queries ...string) error {
	ctx, p.stop = context.WithCancel(ctx)
	for _, query := range queries {
		jar, err := cookiejar.New(nil)
		if err != nil {
			return err
		}
		r := &reader{client: &http.Client{Jar: jar}}
		page, err := r.client.Get(p.Address)
		if err != nil {
			return err
		}
		_ = page.Body.Close()
		r.base = *page.Request.URL
		if query == "first" {
			var index struct {
				Live struct{ Runs []struct{ ID string } }
			}
			if err := r.document(ctx, "", &index); err != nil {
				return err
			}
			query = "run=" + index.Live.Runs[0].ID
		}
		opened := make(chan error)
		go r.follow(ctx, query, opened)
		if err := <-opened; err != nil {
			return err
		}
	}
	return nil
}

type reader struct {
	client *http.Client
	base   url.URL
}

func (r *reader) get(ctx context.Context, path, query string) (*http.Response, error) {
	at := r.base.JoinPath(path)
	at.RawQuery = query
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	answer, err := r.client.Do(request)
	if err == nil && answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body)
		return nil, errors.Join(fmt.Errorf("%s: %s: %.200s", at, answer.Status, text), answer.Body.Close())
	}
	return answer, err
}

func (r *reader) document(ctx context.Context, query string, to any) error {
	answer, err := r.get(ctx, "page.json", query)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	return json.NewDecoder(answer.Body).Decode(to)
}

// follow follows a document until ctx ends; opened hears whether it has the first.
func (r *reader) follow(ctx context.Context, query string, opened chan<- error) {
	events, err := r.get(ctx, "events", query)
	if err != nil {
		opened <- err
		return
	}
	defer events.Body.Close()
	version, first := "", true
	for lines := bufio.NewScanner(events.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var state live.State
		err := json.Unmarshal([]byte(data), &state)
		if err == nil && state.Version != version {
			version = state.Version
			err = r.document(ctx, query, new(json.RawMessage))
		}
		if first {
			opened <- err
			first = false
		} else if err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "reader:", err)
		}
	}
	if first {
		opened <- io.ErrUnexpectedEOF
	}
}

// silent shows nobody what a run says.
type silent struct{}

func (silent) Say(string, ...any)         {}
func (silent) Note(string, ...any)        {}
func (silent) Component(components.Event) {}
func (silent) Clear()                     {}
