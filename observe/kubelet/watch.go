package kubelet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/wake"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

const (
	// Longest is how far samples of a busy container are apart at most where
	// cAdvisor takes them: its housekeeping waits 10 s and up to as much again
	// (github.com/google/cadvisor, manager/container.go), and takes a moment.
	Longest = 21 * time.Second
	// Least is the shortest window that a kubelet can tell anything of, one that
	// samples whenever it is asked.
	Least = 5 * time.Second

	// A kubelet is asked askedInWindow times in a window, to have some to spare
	// above gapsInWindow, but not more often than each leastEvery, as its answers cost
	// the node CPU, and each mostEvery at least, to see all of cAdvisor's samples.
	askedInWindow = 6
	leastEvery    = 800 * time.Millisecond
	mostEvery     = 5 * time.Second

	// asks is how long an answer may take.
	asks = 10 * time.Second
	// Patience is how long a sample may be overdue.
	Patience = 10 * time.Second
	// Apart is how much the clock of a node may surely differ from that of the load
	// generator without a word.
	Apart = time.Second
)

// Every is how often to ask kubelets during a window.
func Every(window time.Duration) time.Duration {
	return min(max(window/askedInWindow, leastEvery), mostEvery)
}

// Reader asks the kubelet of a node.
type Reader func(ctx context.Context, node string) (Page, error)

// Through asks through an API server.
func Through(api rest.Interface) Reader {
	return func(ctx context.Context, node string) (Page, error) { return Read(ctx, api, node) }
}

// Watch has what kubelets said since it was started.
type Watch struct {
	// Ahead is how far the clock of the times that are asked for is ahead of this
	// machine's. It is set before the first of them.
	Ahead time.Duration
	// MayEnd are containers whose samples nobody needs: once a kubelet knows nothing of one
	// any more it is not waited for. They are set before the first wait.
	MayEnd map[Container]bool

	cancel context.CancelFunc
	ended  sync.WaitGroup
	told   chan struct{} // something is new

	mu    sync.Mutex
	nodes map[string]*watched
}

// watched is a node.
type watched struct {
	containers map[Container]*history
	node       Series
	failed     error // of the last question
	// asked is when the last question was put that had an answer. The node's clock
	// is ahead of this machine's by least at least, once sampled, and by most at
	// most, once known.
	asked          time.Time
	least, most    time.Duration
	sampled, known bool
}

// history is what is known of a container.
type history struct {
	cpu    Series
	memory []memory
	gone   bool // the last answer says nothing of it
}

type memory struct {
	at    time.Time
	bytes int64
}

// Start asks the kubelets of nodes for containers, at once and then every so
// often until [Watch.Stop] or the end of ctx.
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

// Stop ends all questions. What is known stays.
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
	}
	if err == nil {
		n.asked = asked
	}
	select {
	case w.told <- struct{}{}:
	default:
	}
}

// compare narrows down how far the node's clock is ahead: a sample was taken before
// the answer that has it, and one that was not there when the last question was put
// (fresh) after that.
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

// AtLeastAhead is by how much a node's clock is ahead of this machine's at least;
// false before its first sample.
func (w *Watch) AtLeastAhead(node string) (time.Duration, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, ok := w.nodes[node]
	if !ok {
		return 0, false
	}
	return n.least, n.sampled
}

// NodeAhead is how far a node's clock is ahead of this machine's, between two
// bounds; false where nothing tells.
func (w *Watch) NodeAhead(node string) (least, most time.Duration, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, ok := w.nodes[node]
	if !ok {
		return 0, 0, false
	}
	return n.least, n.most, n.known
}

// Await waits until each container has a sample that is not older than at, for as
// long as a kubelet may take from now or from at on. It returns when the last of
// them was taken, of each the first that is not older. Where one of MayEnd alone has
// none by then that is no error. One caller at a time.
func (w *Watch) Await(ctx context.Context, at time.Time) (time.Time, error) {
	return w.await(ctx, max(time.Until(at.Add(-w.Ahead)), 0), func(s *Series) (Sample, bool) { return s.first(at) })
}

// await waits until find finds a sample of each container, for as long as a kubelet
// may take after some time.
func (w *Watch) await(ctx context.Context, after time.Duration, find func(*Series) (Sample, bool)) (time.Time, error) {
	limited, cancel := context.WithTimeout(ctx, after+Longest+Patience)
	defer cancel()
	for {
		last, needed, err := w.since(find)
		if err == nil {
			return last, nil
		}
		if apierrors.IsForbidden(err) { // and will be
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

// since is when the last container was sampled, of each the sample that find finds; the
// error says whose is missing, and needed that it is not one of MayEnd.
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

// missing says what is known of a container in place of the sample that is not
// there, which a clock that is behind may keep away. ahead is that of the one that
// is waited by.
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

// String names it in messages.
func (c Container) String() string {
	if c.Name == "" {
		return "pod " + c.Pod
	}
	return fmt.Sprintf("container %s of pod %s", c.Name, c.Pod)
}

func (c Container) compare(o Container) int { return strings.Compare(c.String(), o.String()) }

// CPU is what a container of a node used from a to b; see [Series.Between].
func (w *Watch) CPU(node string, c Container, a, b time.Time) (Usage, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, ok := w.nodes[node]
	if !ok || n.containers[c] == nil {
		return Usage{}, fmt.Errorf("%s on node %s was not watched", c, node)
	}
	u, err := n.containers[c].cpu.Between(a, b)
	last, known := n.containers[c].cpu.Last()
	switch {
	case !known:
		err = n.missing(node, c, w.Ahead)
	case err != nil && last.At.Before(b) && n.failed != nil:
		err = fmt.Errorf("%w: %w", err, n.failed)
	}
	return u, err
}

// Node is what all of a node used from a to b.
func (w *Watch) Node(node string, a, b time.Time) (Usage, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, ok := w.nodes[node]
	if !ok {
		return Usage{}, fmt.Errorf("node %s was not watched", node)
	}
	return n.node.Between(a, b)
}

// Memory is a container's working set in bytes, of the sample next to at; 0 where
// none is known.
func (w *Watch) Memory(node string, c Container, at time.Time) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, ok := w.nodes[node]
	if !ok || n.containers[c] == nil {
		return 0
	}
	best := memory{}
	for _, m := range n.containers[c].memory {
		if best.bytes == 0 || m.at.Sub(at).Abs() < best.at.Sub(at).Abs() {
			best = m
		}
	}
	return best.bytes
}

// Pace finds how far apart a kubelet's samples are for which nothing else is
// known: that of the container sampled least often, by two samples of each, or
// [Longest] if that is longer and the kubelet does not sample when asked.
func (w *Watch) Pace(ctx context.Context) (time.Duration, error) {
	if _, err := w.Await(ctx, time.Time{}); err != nil {
		return 0, err
	}
	// The second of each, and not those after a certain time: nodes' clocks differ.
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

// onDemand is the longest time between samples of a kubelet that is asked every
// leastEvery and samples whenever it is asked.
const onDemand = 4 * time.Second

// LeastWindow is the shortest window for samples so far apart.
func LeastWindow(gap time.Duration) time.Duration {
	if gap <= onDemand { // as often as it is asked
		return Least
	}
	return roundUp(gapsInWindow * gap)
}

// Asking is how often to ask a kubelet to find its pace.
const Asking = leastEvery
