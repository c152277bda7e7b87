package trial

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/drive/worker/control"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/run/site"
	corev1 "k8s.io/api/core/v1"
)

// scribe follows the logs of all proxies and workers of a trial from the start of their containers,
// because kubelets rotate logs and drop those of deleted pods. It owns its goroutines; stop ends
// them.
type scribe struct {
	kube      kubernetes.Interface
	namespace string
	prefix    string  // prefix of the wanted request IDs
	container string  // name of the proxies' container; "" for none
	read      readLog // reads their logs
	idle      bool
	ahead     map[string]int64 // lead of nodes' clocks, nanoseconds

	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu       sync.Mutex
	lives    map[string]bool // followed containers, by ID
	book     *ledger.Book    // entries of proxies and workers; the clients' are added at the end
	over     bool            // settle has handed over the book: later lines are dropped
	lines    ledger.Lines
	last     time.Time // arrival of the last entry
	failures map[string]string
}

// readLog reads a proxy's log, as [mesh.RequestLogger] does.
type readLog func(r io.Reader, source ledger.Source, each func(ledger.ProxyEntry)) (ledger.Lines, error)

// newScribe returns a scribe for a scene. It follows nothing if the study keeps no ledger.
func newScribe(ctx context.Context, kube kubernetes.Interface, namespace string, of *scene, ahead map[string]int64) *scribe {
	s := &scribe{kube: kube, namespace: namespace, prefix: of.idPrefix(), idle: !of.keepsLedger(), ahead: ahead, book: ledger.New(of.ledgerOptions()), lives: map[string]bool{}, failures: map[string]string{}, last: time.Now()}
	if m, ok := able[mesh.RequestLogger](of); ok && of.keepsLedger() {
		s.container, s.read = m.LogContainer(), m.ReadLog
	}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return s
}

// stop ends the reading. It may be called more than once.
func (s *scribe) stop() {
	s.cancel()
	s.done.Wait()
}

// found starts to follow new containers of a pod.
func (s *scribe) found(pod *corev1.Pod) {
	if s.idle {
		return
	}
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		proxy := s.container != "" && status.Name == s.container
		if !proxy && status.Name != site.RoleWorker || status.State.Running == nil || status.ContainerID == "" {
			continue
		}
		s.mu.Lock()
		known := s.lives[status.ContainerID]
		s.lives[status.ContainerID] = true
		s.mu.Unlock()
		if known || s.ctx.Err() != nil {
			continue
		}
		source := ledger.Source{Service: pod.Labels[mesh.AppLabel], Pod: pod.Name, Prefix: s.prefix, ZeroNS: s.ahead[pod.Spec.NodeName]}
		for _, ip := range pod.Status.PodIPs {
			source.Addresses = append(source.Addresses, ip.IP)
		}
		s.done.Go(func() { s.follow(source, status.Name, proxy) })
	}
}

// follow reads a container's log until it ends.
func (s *scribe) follow(source ledger.Source, container string, proxy bool) {
	who := source.Pod + "/" + container
	stream, err := s.kube.CoreV1().Pods(s.namespace).GetLogs(source.Pod, &corev1.PodLogOptions{Container: container, Follow: true}).Stream(s.ctx)
	if err != nil {
		s.failed(who, err)
		return
	}
	defer stream.Close()
	if !proxy {
		s.failed(who, readWorker(stream, source, func(e ledger.WorkerEntry) {
			s.add(func() { s.book.AddWorker(e) })
		}))
		return
	}
	lines, err := s.read(stream, source, func(e ledger.ProxyEntry) {
		s.add(func() { s.book.AddProxy(e) })
	})
	s.mu.Lock()
	s.lines.Add(lines)
	s.mu.Unlock()
	s.failed(who, err)
}

// add adds an entry to the book unless the book is closed.
func (s *scribe) add(entry func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		entry()
		s.last = time.Now()
	}
}

func (s *scribe) failed(who string, err error) {
	if err == nil || s.ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures[who] = err.Error()
}

// readWorker reads the lines that a worker writes with --log-requests and skips the container's
// other lines.
func readWorker(r io.Reader, source ledger.Source, each func(ledger.WorkerEntry)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<16)
	begin := []byte(`{"id":"` + source.Prefix)
	for lines.Scan() {
		if !bytes.HasPrefix(lines.Bytes(), begin) {
			continue
		}
		var e control.Request
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("log of worker %s: %w", source.Pod, err)
		}
		each(ledger.WorkerEntry{ID: e.ID, Service: source.Service, Pod: source.Pod, StartNS: e.StartNS - source.ZeroNS, EndNS: e.EndNS - source.ZeroNS,
			Status: e.Status, Ended: ledger.WorkerEnded(e.Status, e.Failure)})
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("log of worker %s: %w", source.Pod, err)
	}
	return nil
}

// Limits of the wait for the last lines. A sidecar flushes its log once a second (Istio's
// file-flush-interval), a worker ten times. Both are later if the machine is suspended for a while.
// Only a book that does not balance waits that long.
const (
	scribeQuiet = 5 * time.Second
	scribeLimit = time.Minute
	scribeLook  = 250 * time.Millisecond
)

// settle adds the clients' entries, waits until the book balances or no more lines arrive, and
// closes it.
func (s *scribe) settle(ctx context.Context, clients []ledger.ClientEntry) (*ledger.Book, error) {
	begin := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.book.AddClients(clients)
	var looked, last time.Time
	var kept time.Duration // time that log readers waited for accounts since the last line
	for {
		if s.last.After(last) {
			last, kept = s.last, 0
		}
		now := time.Now()
		quiet := now.Sub(last)-kept > scribeQuiet && now.Sub(begin) > scribeQuiet
		ended := quiet || now.Sub(begin) > scribeLimit || s.book.Over() > 0 // an overfull book never balances
		// Accounts are expensive, so make one only when lines have paused.
		if !ended && now.Sub(last) > scribeLook && !looked.After(last) {
			ended, looked = s.book.Account().Reconciled, now
			kept += time.Since(now)
		}
		if ended {
			s.over = true
			return s.book, nil
		}
		s.mu.Unlock()
		err := wake.Pause(ctx, scribeLook/5)
		s.mu.Lock()
		if err != nil {
			return nil, err
		}
	}
}

// problems returns the logs that could not be read to the end, with the reason, and the outcome of
// reading the proxies' lines.
func (s *scribe) problems() (map[string]string, ledger.Lines) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.failures), s.lines
}
