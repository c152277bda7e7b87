package site

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
)

// Alone is how long a role goes on without hearing from the runner: long enough
// for a broken connection and a restarted API server.
const Alone = 45 * time.Second

// How often the runner sends its roles a heartbeat, and how long it waits for the
// answer. A beat is a request without a body on a kept connection: no more than
// what a port-forward itself sends every 10 s.
const (
	beatEvery = 10 * time.Second
	beatTime  = 5 * time.Second
)

// heartbeat tells the roles' pods that the runner is alive. It follows the pods
// itself, so that beats go on while the runner waits for other pods or reconnects.
type heartbeat struct {
	beat   func(ctx context.Context, line *http.Client, role listener) error
	hangUp func(dialer *lab.Dialer, namespace, pod string)

	mu     sync.Mutex
	dialer *lab.Dialer
	roles  map[string]listener     // by app
	lines  map[string]*http.Client // by the pod's UID
	heard  map[string]time.Time    // by the pod's UID: when it answered last, or its line was hung up
	cancel context.CancelFunc      // nil: it has not begun
	done   sync.WaitGroup
}

// listener is where a role's pods receive heartbeats.
type listener struct {
	port  int
	token string // "": none is wanted
}

func newHeartbeat(dialer *lab.Dialer) *heartbeat {
	return &heartbeat{
		dialer: dialer, roles: map[string]listener{}, lines: map[string]*http.Client{}, heard: map[string]time.Time{},
		hangUp: (*lab.Dialer).HangUp,
		beat: func(ctx context.Context, line *http.Client, role listener) error {
			c := jsonhttp.Client{HTTPClient: line, BaseURL: "http://127.0.0.1", Name: "role", MaxAnswer: 1 << 10, Token: role.token}
			return c.StillHere(ctx)
		},
	}
}

// KeepAlive sends a role's pods in the run's namespace a heartbeat every 10 s, to a
// port of their loopback, until [Site.Remove]. A lost beat is harmless: a role that
// misses four of them ends, and its connection is closed. With an observer's, the
// connections to the other pods of its node, which may be dead, are closed too.
func (s *Site) KeepAlive(app string, port int, token string) {
	h := s.beats
	h.mu.Lock()
	defer h.mu.Unlock()
	h.roles[app] = listener{port, token}
	if h.cancel != nil {
		return
	}
	// It outlives a run that is interrupted: its roles are still asked to end
	// what they do.
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	// All pods of the namespace: those that the mesh makes there, as a waypoint, lack the run's label.
	pods := kubernetes.Informer(s.Kube, s.Kube.CoreV1().Pods(s.Namespace), "", &corev1.Pod{})
	// A watch that breaks begins anew; what broke it, the trials meet too.
	_ = pods.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}) // it has not begun
	h.done.Go(func() { pods.RunWithContext(ctx) })
	h.done.Go(func() { h.run(ctx, pods.GetStore()) })
}

// run beats until ctx ends.
func (h *heartbeat) run(ctx context.Context, pods cache.Store) {
	ticker := time.NewTicker(beatEvery)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			h.excuse(time.Since(last) - beatEvery)
			last = time.Now()
			h.round(ctx, pods)
		}
	}
}

// excuse discounts the silence during which this process itself stood still, as a very
// late round shows.
func (h *heartbeat) excuse(late time.Duration) {
	if late < beatTime {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for uid, heard := range h.heard {
		if heard = heard.Add(late); heard.After(now) {
			heard = now
		}
		h.heard[uid] = heard
	}
}

// round is one beat to every pod of a role that runs, all at once.
func (h *heartbeat) round(ctx context.Context, pods cache.Store) {
	ctx, cancel := context.WithTimeout(ctx, beatTime)
	defer cancel()
	var beats sync.WaitGroup
	h.mu.Lock()
	lines := map[string]*http.Client{}
	listening, others := h.divide(pods.List())
	for _, pod := range listening {
		app := pod.Labels[mesh.AppLabel]
		role := h.roles[app]
		hangUp := []*corev1.Pod{pod}
		if app == RoleObserve {
			hangUp = append(hangUp, others[pod.Spec.NodeName]...)
		}
		line := h.lines[string(pod.UID)]
		if line == nil {
			line = h.dialer.Client(pod.Namespace, pod.Name, role.port)
		}
		lines[string(pod.UID)] = line
		dialer := h.dialer
		beats.Go(func() {
			began := time.Now()
			err := h.beat(ctx, line, role)
			if err == nil || time.Since(began) < 2*beatTime { // else we stood still, and it says nothing
				h.note(dialer, hangUp, err)
			}
		})
	}
	for uid, line := range h.lines {
		if lines[uid] == nil {
			line.CloseIdleConnections()
			delete(h.heard, uid)
		}
	}
	h.lines = lines
	h.mu.Unlock()
	beats.Wait()
}

// divide separates the running pods of roles from other running pods, by node.
func (h *heartbeat) divide(all []any) (listening []*corev1.Pod, others map[string][]*corev1.Pod) {
	others = map[string][]*corev1.Pod{}
	for _, o := range all {
		pod, ok := o.(*corev1.Pod)
		if !ok || pod.Status.Phase != corev1.PodRunning {
			continue
		}
		if _, listens := h.roles[pod.Labels[mesh.AppLabel]]; listens {
			listening = append(listening, pod)
		} else {
			others[pod.Spec.NodeName] = append(others[pod.Spec.NodeName], pod)
		}
	}
	return listening, others
}

// note records an answer of the first pod. Once it has been silent for as long as roles go
// on alone, the connections to all the pods are closed: requests would otherwise wait a
// quarter of an hour until TCP gives up a dead node, and a role that is still alive has
// ended its work. The others are pods without beats on the node of a silent observer.
func (h *heartbeat) note(dialer *lab.Dialer, pods []*corev1.Pod, err error) {
	answer := (*jsonhttp.StatusError)(nil)
	h.mu.Lock()
	defer h.mu.Unlock()
	uid := string(pods[0].UID)
	last, known := h.heard[uid]
	silent := err != nil && !errors.As(err, &answer) && known
	if silent && time.Since(last) < Alone {
		return
	}
	h.heard[uid] = time.Now()
	if silent {
		for _, pod := range pods {
			h.hangUp(dialer, pod.Namespace, pod.Name)
		}
	}
}

// redial sends the next beats by another dialer.
func (h *heartbeat) redial(dialer *lab.Dialer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dialer, h.lines = dialer, map[string]*http.Client{}
}

// stop ends the beats, and waits for the last.
func (h *heartbeat) stop() {
	h.mu.Lock()
	if h.cancel != nil {
		h.cancel()
	}
	h.mu.Unlock()
	h.done.Wait()
}
