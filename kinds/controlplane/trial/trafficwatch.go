package trial

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	loadcontrol "github.com/meshtrial/meshtrial/drive/load/control"
	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
)

// trafficWitness observes a trial's requests: the log of the caller's sidecar, and the Service's
// addresses in the API server. It owns its goroutines; stop ends them.
type trafficWitness struct {
	cancel  context.CancelFunc
	done    sync.WaitGroup // the reader of the log
	watch   *site.EndpointWatch
	started loadcontrol.Started
	before  observe.ProxyStats
	book    *addressBook

	mu      sync.Mutex
	lines   []mesh.AttemptLine
	last    time.Time // arrival of the last line
	damaged int
	err     error // why the log ended early
}

// maxAttemptLines limits the log lines kept of a trial: an hour at 2,000 attempts per second.
const maxAttemptLines = 8_000_000

// witnessTraffic starts watching, and reading the log.
func (c *controlPlane) witnessTraffic(ctx context.Context, s population.Service) (*trafficWitness, error) {
	begin := ctx
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w := &trafficWitness{cancel: cancel, book: newAddressBook(), last: time.Now()}
	var err error
	if w.watch, err = site.WatchEndpoints(begin, c.Kube, s.Namespace, population.AppLabel+"="+s.Name, w.book.onSlice, w.book.onPod); err != nil {
		cancel()
		return nil, fmt.Errorf("watch the endpoints of the requests: %w", err)
	}
	logger := c.o.Mesh.(mesh.AttemptLogger) // ensureTraffic has checked this
	log, err := c.Kube.CoreV1().Pods(s.Namespace).GetLogs(c.caller.pod.Name, &corev1.PodLogOptions{
		Container: logger.LogContainer(), Follow: true, TailLines: site.Ptr(int64(0))}).Stream(ctx)
	if err != nil {
		w.stop()
		return nil, fmt.Errorf("read the log of the caller's sidecar: %w", err)
	}
	w.done.Go(func() { w.read(ctx, log) })
	return w, nil
}

// stop ends the watches and the log. It may be called more than once.
func (w *trafficWitness) stop() {
	w.cancel()
	w.watch.Stop()
	w.done.Wait()
}

// read reads the log until it or the context ends.
func (w *trafficWitness) read(ctx context.Context, log io.ReadCloser) {
	defer log.Close()
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		w.line(lines.Text())
	}
	if ctx.Err() == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.err = errors.Join(errors.New("the log of the caller's sidecar ended before the trial"), lines.Err())
	}
}

func (w *trafficWitness) line(text string) {
	l, ours, err := mesh.ParseAttempt(text)
	if !ours {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = time.Now()
	if err != nil || len(w.lines) >= maxAttemptLines {
		w.damaged++
		return
	}
	w.lines = append(w.lines, l)
}

// A sidecar flushes its log once per second (Istio's file-flush-interval), and the kubelet
// forwards it at once.
const (
	logQuiet = 2500 * time.Millisecond
	logLimit = 15 * time.Second
)

// finish waits until no more lines come, ends the watches, and returns what was logged.
func (w *trafficWitness) finish(ctx context.Context) ([]mesh.AttemptLine, error) {
	begin := time.Now()
	for quiet := false; !quiet && time.Since(begin) < logLimit; {
		if err := wake.Pause(ctx, statusEvery); err != nil {
			return nil, err
		}
		w.mu.Lock()
		quiet = time.Since(w.last) > logQuiet && time.Since(begin) > logQuiet
		w.mu.Unlock()
	}
	w.stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.err != nil:
		return nil, w.err
	case w.damaged > 0:
		return nil, fmt.Errorf("%d lines of the caller's sidecar's log are damaged or exceed the limit of %d", w.damaged, maxAttemptLines)
	}
	return w.lines, nil
}

// addressBook records when addresses came and went, by this machine's clock.
type addressBook struct {
	mu    sync.Mutex
	ready map[string]map[string]bool // addresses by EndpointSlice
	lives map[string][]stay          // by address, in their order
}

// stay is one stay of an address behind the Service, in Unix nanoseconds.
type stay struct {
	pod             string
	from, gone, end int64 // gone and end are 0 until then; end: of its pod's processes
}

func newAddressBook() *addressBook {
	return &addressBook{ready: map[string]map[string]bool{}, lives: map[string][]stay{}}
}

func (b *addressBook) onSlice(slice *discoveryv1.EndpointSlice, deleted bool) {
	b.update(slice.Name, site.ReadyAddresses(slice, deleted), time.Now().UnixNano())
}

// update records the ready addresses of an EndpointSlice.
func (b *addressBook) update(slice string, ready map[string]bool, at int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.all()
	b.ready[slice] = ready
	after := b.all()
	for a := range after {
		if !before[a] {
			b.lives[a] = append(b.lives[a], stay{from: at})
		}
	}
	for a := range before {
		if n := len(b.lives[a]); !after[a] && n > 0 {
			b.lives[a][n-1].gone = at
		}
	}
}

func (b *addressBook) all() map[string]bool {
	out := map[string]bool{}
	for _, addresses := range b.ready {
		for a := range addresses {
			out[a] = true
		}
	}
	return out
}

func (b *addressBook) onPod(pod *corev1.Pod, deleted bool) {
	if pod.Status.PodIP == "" {
		return
	}
	ended := deleted || len(pod.Status.ContainerStatuses) > 0
	for _, s := range pod.Status.ContainerStatuses {
		ended = ended && (deleted || s.State.Terminated != nil)
	}
	if ended {
		b.ended(pod.Status.PodIP, pod.Name, time.Now().UnixNano())
	}
}

// ended records that the pod of an address has no more processes.
func (b *addressBook) ended(address, pod string, at int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	lives := b.lives[address]
	for i := range lives {
		if lives[i].pod == pod {
			return // already known
		}
	}
	// The pod's own stay is the first one not ended by a pod.
	for i := range lives {
		if lives[i].end == 0 {
			lives[i].end, lives[i].pod = at, pod
			return
		}
	}
}

// gone returns the time since when an address had been removed at a moment, and whether its pod's
// processes had ended too. ok is false if it was ready or had never existed.
func (b *addressBook) gone(address string, at int64) (since int64, ended, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	lives := b.lives[address]
	for i := len(lives) - 1; i >= 0; i-- {
		l := lives[i]
		if l.from > at {
			continue
		}
		if l.gone == 0 || l.gone > at {
			return 0, false, false
		}
		return l.gone, l.end != 0 && l.end <= at, true
	}
	return 0, false, false
}

// went returns the number of removed addresses.
func (b *addressBook) went() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, lives := range b.lives {
		for _, l := range lives {
			if l.gone != 0 {
				n++
			}
		}
	}
	return n
}

// met describes what a request met at removed addresses.
type met struct {
	failed   bool
	lost     time.Duration // in failed attempts at removed addresses
	answered bool          // by any attempt, without an error
	refused  bool          // the caller saw it fail
}

// exposure counts the attempts that went to addresses already removed, and the outcomes of their
// requests. ahead is the lead of the sidecar's clock over the book's.
func exposure(lines []mesh.AttemptLine, book *addressBook, ahead time.Duration) record.Traffic {
	out := record.Traffic{Failed: map[string]int64{}, ProxyFailed: map[string]int64{}, PhantomFlags: map[string]int64{}, Gone: book.went()}
	// Only the few requests that met such an address are tracked by ID.
	requests := map[string]*met{}
	for _, l := range lines {
		if l.Request {
			out.ProxyFailed[failure(l)]++
			continue
		}
		out.Attempts++
		if l.Unconnected() {
			out.Unconnected++
		}
		if l.GivenUp() {
			out.GivenUp++
		}
		since, ended, gone := book.gone(l.Host.Addr().String(), l.StartNS-int64(ahead))
		if !gone {
			continue
		}
		out.PhantomAttempts++
		if ended {
			out.PhantomEnded++
		}
		out.LastPhantomUS = max(out.LastPhantomUS, float64(l.StartNS-int64(ahead)-since)/1e3)
		r := requests[l.ID]
		if r == nil {
			r = &met{}
			requests[l.ID] = r
		}
		if !l.OK() {
			r.failed = true
			r.lost += time.Duration(l.TookMS) * time.Millisecond
			out.PhantomFailed++
			out.PhantomFlags[failure(l)]++
		}
	}
	for _, l := range lines {
		r := requests[l.ID]
		if r == nil {
			continue
		}
		r.refused = r.refused || l.Request
		r.answered = r.answered || !l.Request && l.OK()
	}
	for _, r := range requests {
		out.PhantomRequests++
		switch {
		case r.refused && r.failed:
			out.PhantomFailures++
		case !r.answered:
			out.PhantomOpen++
		case r.failed:
			out.PhantomHidden++
			out.HiddenMaxUS = max(out.HiddenMaxUS, float64(r.lost.Microseconds()))
		default:
			out.PhantomServed++
		}
	}
	return out
}

// givenUp marks an attempt whose caller disconnected before its end.
const givenUp = "given up"

// failure names why a request or an attempt failed: Envoy's flags, or the status from the endpoint
// itself.
func failure(l mesh.AttemptLine) string {
	if l.GivenUp() {
		return givenUp
	}
	if l.Flags != "-" {
		return l.Flags
	}
	return strconv.Itoa(l.Code)
}
