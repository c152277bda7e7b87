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
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
)

// Alone is how long a role continues without hearing from the runner: long enough for a broken
// connection and a restarted API server.
const Alone = 45 * time.Second

// The interval of the runner's heartbeats to its roles, and the timeout of the response. A beat is
// a request without a body on a kept connection: no more than what a port-forward itself sends
// every 10 s.
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
	heard  map[string]time.Time    // by the pod's UID: when it last responded, or when its line was closed
	cancel context.CancelFunc      // nil: not started
	done   sync.WaitGroup
}

// listener is where a role's pods receive heartbeats.
type listener struct {
	port  int
	token string // "": none required
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

// KeepAlive sends a heartbeat every 10 s to a role's pods in the run's namespace, to a port on
// their loopback, until [Site.Remove]. A lost beat is harmless: a role that misses four of them
// ends, and its connection is closed. If the role is an observer, its node may be dead, so the
// connections to the other pods of its node are closed too.
func (s *Site) KeepAlive(app string, port int, token string) {
	h := s.beats
	h.mu.Lock()
	defer h.mu.Unlock()
	h.roles[app] = listener{port, token}
	if h.cancel != nil {
		return
	}
	// It outlives an interrupted run, whose roles are still asked to end their work.
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	// Watch all pods of the namespace: those that the mesh creates there, such as a waypoint, lack
	// the run's label.
	pods := kubernetes.Informer(s.Kube, s.Kube.CoreV1().Pods(s.Namespace), "", &corev1.Pod{})
	// A broken watch restarts; trials also see the cause.
	_ = pods.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}) // it has not begun
	h.done.Go(func() { pods.RunWithContext(ctx) })
	h.done.Go(func() { h.run(ctx, pods.GetStore()) })
}

// run sends beats until ctx ends.
func (h *heartbeat) run(ctx context.Context, pods cache.Store) {
	for last := time.Now(); wake.Pause(ctx, beatEvery-time.Since(last)) == nil; {
		h.excuse(time.Since(last) - beatEvery)
		last = time.Now()
		h.round(ctx, pods)
	}
}

// excuse discounts silence while this process itself stood still, which a very late round
// indicates.
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

// round sends one beat to every running pod of a role, concurrently.
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
			if err == nil || time.Since(began) < 2*beatTime { // otherwise this process stood still, and the failure means nothing
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

// note records a response of the first pod. If it has been silent for longer than roles continue
// alone, the connections to all the pods are closed: requests would otherwise wait a quarter of an
// hour until TCP gives up a dead node, and a role that is still alive has ended its work. The other
// pods are those without beats on the node of a silent observer.
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

// redial sends the next beats through another dialer.
func (h *heartbeat) redial(dialer *lab.Dialer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dialer, h.lines = dialer, map[string]*http.Client{}
}

// stop ends the beats and waits for the last one.
func (h *heartbeat) stop() {
	h.mu.Lock()
	if h.cancel != nil {
		h.cancel()
	}
	h.mu.Unlock()
	h.done.Wait()
}
