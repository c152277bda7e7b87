package kubelet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/wake"
)

const (
	// Longest is the maximum time between samples of a busy container if cAdvisor takes
	// them: its housekeeping waits between 10 and 20 s (github.com/google/cadvisor,
	// manager/container.go), and takes a moment.
	Longest = 21 * time.Second
	// Least is the shortest window that a kubelet can measure, if it samples on demand.
	Least = 5 * time.Second

	// A kubelet is polled askedInWindow times per window, with some margin above
	// gapsInWindow. The interval is at least leastEvery, because responses cost the node
	// CPU, and at most mostEvery, to see all of cAdvisor's samples.
	askedInWindow = 6
	leastEvery    = 800 * time.Millisecond
	mostEvery     = 5 * time.Second

	// asks is the timeout of a response.
	asks = 10 * time.Second
	// Patience is how long a sample may be overdue.
	Patience = 10 * time.Second
	// Apart is the difference between the clocks of a node and the load generator that is
	// tolerated without a warning.
	Apart = time.Second
)

// Every returns the polling interval for a window.
func Every(window time.Duration) time.Duration {
	return min(max(window/askedInWindow, leastEvery), mostEvery)
}

// Reader reads the kubelet of a node.
type Reader func(ctx context.Context, node string) (Page, error)

// Through returns a Reader that uses an API server.
func Through(api rest.Interface) Reader {
	return func(ctx context.Context, node string) (Page, error) { return Read(ctx, api, node) }
}

// Watch collects what kubelets report after it is started.
type Watch struct {
	// Ahead is how far the clock of requested times is ahead of this machine's. Set it
	// before requesting the first.
	Ahead time.Duration
	// MayEnd marks containers whose samples are optional: once a kubelet no longer reports
	// one, it is not waited for. Set it before the first wait.
	MayEnd map[Container]bool

	cancel context.CancelFunc
	ended  sync.WaitGroup
	told   chan struct{} // signals news

	mu    sync.Mutex
	nodes map[string]*watched
}

// watched is the state of a node.
type watched struct {
	containers map[Container]*history
	node       Series
	failed     error // error of the last request
	// asked is when the last successful request was sent. The node's clock is ahead of this
	// machine's by at least least (if sampled), and by at most most (if known).
	asked          time.Time
	least, most    time.Duration
	sampled, known bool
}

// history has the samples of a container.
type history struct {
	cpu    Series
	memory []memory
	gone   bool // the last response lacks it
}

type memory struct {
	at    time.Time
	bytes int64
}

// Start polls the kubelets of nodes for containers, immediately and then at the given
// interval, until [Watch.Stop] or the end of ctx.
func Start(ctx context.Context, read Reader, containers map[string][]Container, every time.Duration) *Watch {
	ctx, cancel := context.WithCancel(ctx)
	w := &Watch{cancel: cancel, told: make(chan struct{}, 1), nodes: map[string]*watched{}}
	for node, wanted := range containers {
		n := &watched{containers: map[Container]*history{}}
		for _, c := range wanted {
			n.containers[c] = &history{}
		}
		w.nodes[node] = n
		w.ended.Go(func() {
			for {
				w.look(ctx, read, node, n)
				if wake.Pause(ctx, every) != nil {
					return
				}
			}
		})
	}
	return w
}

// Stop ends polling. Collected data remains available.
func (w *Watch) Stop() {
	w.cancel()
	w.ended.Wait()
}

func (w *Watch) look(ctx context.Context, read Reader, node string, n *watched) {
	limited, cancel := context.WithTimeout(ctx, asks)
	defer cancel()
	asked := time.Now()
	page, err := read(limited, node)
	answered := time.Now()
	if ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	n.failed = err
	if err == nil {
		n.node.Add(page.Node.CPU)
		for c, r := range n.containers {
			known, ok := page.Containers[c]
			if r.gone = !ok; r.gone {
				continue
			}
			if r.cpu.Add(known.CPU) {
				n.compare(known.CPU.At, answered, len(r.cpu.samples) > 1)
			}
			if last := len(r.memory) - 1; known.Memory > 0 && (last < 0 || known.MemoryAt.After(r.memory[last].at)) {
				r.memory = append(r.memory, memory{known.MemoryAt, known.Memory})
			}
		}
		n.asked = asked
	}
	select {
	case w.told <- struct{}{}:
	default:
	}
}

// compare narrows the bounds of how far the node's clock is ahead: a sample was taken
// before the response that contains it, and, if it was not in the previous response
// (fresh), after the previous request was sent.
func (n *watched) compare(at, answered time.Time, fresh bool) {
	least := at.Sub(answered)
	if n.sampled {
		least = max(least, n.least)
	}
	n.least, n.sampled = least, true
	if !fresh {
		return
	}
	most := at.Sub(n.asked)
	if n.known {
		most = min(most, n.most)
	}
	n.most, n.known = most, true
}

// of returns the state of a node; zero if it is not watched. The lock must be held.
func (w *Watch) of(node string) watched {
	if n := w.nodes[node]; n != nil {
		return *n
	}
	return watched{}
}

// AtLeastAhead returns the minimum by which a node's clock is ahead of this machine's;
// false before its first sample.
func (w *Watch) AtLeastAhead(node string) (time.Duration, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.of(node)
	return n.least, n.sampled
}

// NodeAhead returns bounds of how far a node's clock is ahead of this machine's; false if
// unknown.
func (w *Watch) NodeAhead(node string) (least, most time.Duration, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.of(node)
	return n.least, n.most, n.known
}

// Await waits until each container has a sample at or after at. The timeout is the longest
// time that a kubelet may take, counted from now or from at, whichever is later. It takes
// the first such sample of each container and returns the time of the latest of them.
// Missing samples of containers in MayEnd are not an error. It must not be called
// concurrently.
func (w *Watch) Await(ctx context.Context, at time.Time) (time.Time, error) {
	return w.await(ctx, max(time.Until(at.Add(-w.Ahead)), 0), func(s *Series) (Sample, bool) { return s.first(at) })
}

// await waits until find finds a sample of each container, for at most the time a kubelet
// may take beyond after.
func (w *Watch) await(ctx context.Context, after time.Duration, find func(*Series) (Sample, bool)) (time.Time, error) {
	limited, cancel := context.WithTimeout(ctx, after+Longest+Patience)
	defer cancel()
	for {
		last, needed, err := w.since(find)
		if err == nil {
			return last, nil
		}
		if apierrors.IsForbidden(err) { // polling again would not help
			return time.Time{}, err
		}
		select {
		case <-limited.Done():
			switch {
			case ctx.Err() != nil:
				return time.Time{}, ctx.Err()
			case !needed:
				return last, nil
			}
			return time.Time{}, err
		case <-w.told:
		}
	}
}

// since returns the time of the latest of the samples that find returns for each container.
// The error names the container without one, and needed means that it is not in MayEnd.
func (w *Watch) since(find func(*Series) (Sample, bool)) (last time.Time, needed bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, node := range slices.Sorted(maps.Keys(w.nodes)) {
		n := w.nodes[node]
		for _, c := range slices.SortedFunc(maps.Keys(n.containers), Container.compare) {
			known, mayEnd := n.containers[c], w.MayEnd[c]
			found, ok := find(&known.cpu)
			switch {
			case ok:
				last = latest(last, found.At)
				continue
			case mayEnd && known.gone:
				continue
			}
			if err = n.failed; err == nil {
				err = n.missing(node, c, w.Ahead)
			}
			if !mayEnd {
				return last, true, err
			}
		}
	}
	return last, false, err
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// missing explains why a container has no sample, for example because the node's clock is
// behind. ahead is that of the clock used for waiting.
func (n *watched) missing(node string, c Container, ahead time.Duration) error {
	known, ok := n.containers[c].cpu.Last()
	if !ok {
		return errs.WithHint(fmt.Errorf("the kubelet of node %s says nothing of %s", node, c), "kubectl get --raw /api/v1/nodes/%s/proxy/metrics/resource shows what it knows", node)
	}
	err := fmt.Errorf("the kubelet of node %s has sampled %s last at %s", node, c, known.At.UTC().Format("15:04:05.000"))
	if behind := ahead - n.most; n.known && behind > Apart {
		err = errs.WithHint(fmt.Errorf("%w, by a clock that is %v behind that of the load generator at least", err, behind.Round(10*time.Millisecond)), "set the clocks of nodes by NTP")
	}
	return err
}

// String formats the container for messages.
func (c Container) String() string {
	if c.Name == "" {
		return "pod " + c.Pod
	}
	return fmt.Sprintf("container %s of pod %s", c.Name, c.Pod)
}

func (c Container) compare(o Container) int { return strings.Compare(c.String(), o.String()) }

// CPU returns what a container of a node used from a to b; see [Series.Between].
func (w *Watch) CPU(node string, c Container, a, b time.Time) (Usage, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.of(node)
	watched := n.containers[c]
	if watched == nil {
		return Usage{}, fmt.Errorf("%s on node %s was not watched", c, node)
	}
	u, err := watched.cpu.Between(a, b)
	last, known := watched.cpu.Last()
	switch {
	case !known:
		err = n.missing(node, c, w.Ahead)
	case err != nil && last.At.Before(b) && n.failed != nil:
		err = fmt.Errorf("%w: %w", err, n.failed)
	}
	return u, err
}

// Node returns what the whole node used from a to b.
func (w *Watch) Node(node string, a, b time.Time) (Usage, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, ok := w.nodes[node]
	if !ok {
		return Usage{}, fmt.Errorf("node %s was not watched", node)
	}
	return n.node.Between(a, b)
}

// Memory returns a container's working set in bytes, from the sample closest to at; 0 if
// unknown.
func (w *Watch) Memory(node string, c Container, at time.Time) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	best := memory{}
	watched := w.of(node).containers[c]
	if watched == nil {
		return 0
	}
	for _, m := range watched.memory {
		if best.bytes == 0 || m.at.Sub(at).Abs() < best.at.Sub(at).Abs() {
			best = m
		}
	}
	return best.bytes
}

// Pace determines the time between a kubelet's samples: that of the container sampled least
// often, from two samples of each, or [Longest] if that is longer and the kubelet does not
// sample on demand.
func (w *Watch) Pace(ctx context.Context) (time.Duration, error) {
	if _, err := w.Await(ctx, time.Time{}); err != nil {
		return 0, err
	}
	// Wait for the second sample of each rather than for a time: nodes' clocks differ.
	if _, err := w.await(ctx, 0, (*Series).second); err != nil {
		return 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	gap := time.Duration(0)
	for _, n := range w.nodes {
		for _, r := range n.containers {
			all := r.cpu.samples
			for i := 1; i < len(all); i++ {
				gap = max(gap, all[i].At.Sub(all[i-1].At))
			}
		}
	}
	if gap > onDemand {
		gap = max(gap, Longest)
	}
	return gap, nil
}

// onDemand is the longest time between samples of a kubelet that samples on demand, if
// polled every leastEvery.
const onDemand = 4 * time.Second

// LeastWindow returns the shortest window for samples that far apart.
func LeastWindow(gap time.Duration) time.Duration {
	if gap <= onDemand { // it samples on demand
		return Least
	}
	return roundUp(gapsInWindow * gap)
}

// Asking is the polling interval for finding a kubelet's pace.
const Asking = leastEvery
