package site

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/testing/must"
)

// beating returns a site that sends heartbeats to pods.
func beating(pods ...runtime.Object) *Site {
	return &Site{Kube: fakecluster.New(pods...), Namespace: "n", Run: "r", beats: newHeartbeat(lab.NewDialer(&rest.Config{}))}
}

// running returns a pod of a role.
func running(name, app string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n", UID: types.UID(name), Labels: Labels("r", app)}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
}

// Pods of registered roles receive a heartbeat every 10 s while they run, including late ones
// and replacements, through whichever dialer is in use, until the site is removed.
func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := running("o-2", RoleObserve)
		late.Status.Phase = corev1.PodPending
		s := beating(running("o-1", RoleObserve), late, running("w", RoleWorker))
		pods := s.Kube.CoreV1().Pods("n")
		var mu sync.Mutex
		heard := map[listener]int{}
		lines := map[*http.Client]bool{}
		s.beats.beat = func(_ context.Context, line *http.Client, role listener) error {
			mu.Lock()
			defer mu.Unlock()
			heard[role]++
			lines[line] = true
			return context.DeadlineExceeded // a lost beat is ignored
		}
		// want waits for the middle of the next interval and compares the beats to each role
		// since the last call.
		want := func(when string, observe, fault, newLines int) {
			t.Helper()
			time.Sleep(beatEvery)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if o, f := heard[listener{1, ""}], heard[listener{2, "secret"}]; o != observe || f != fault || len(heard) > 2 || len(lines) != newLines {
				t.Errorf("%s: %d beats to observers, %d to fault roles, on %d lines so far, to %v; want %d, %d, %d", when, o, f, len(lines), slices.Collect(maps.Keys(heard)), observe, fault, newLines)
			}
			clear(heard)
		}
		s.KeepAlive(RoleObserve, 1, "")
		time.Sleep(beatEvery / 2)
		want("at first", 1, 0, 1)
		want("again, on the same line", 1, 0, 1)
		must.OK(t, must.Err(pods.Update(t.Context(), running("o-2", RoleObserve), metav1.UpdateOptions{})))
		want("a late node", 2, 0, 2)
		s.KeepAlive(RoleFault, 2, "secret")
		must.OK(t, must.Err(pods.Create(t.Context(), running("f", RoleFault), metav1.CreateOptions{})))
		want("another role", 2, 1, 3)
		must.OK(t, pods.Delete(t.Context(), "o-1", metav1.DeleteOptions{}))
		want("a pod is gone", 1, 1, 3)
		s.beats.redial(lab.NewDialer(&rest.Config{}))
		want("by another dialer", 1, 1, 5)
		s.beats.stop()
		want("removed", 0, 0, 5)
	})
}

// A role that does not respond delays neither the beats to others nor its own next beat.
func TestHeartbeatOfARoleThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := beating(running("o", RoleObserve), running("f", RoleFault))
		var mu sync.Mutex
		began := map[int]int{}
		s.beats.beat = func(ctx context.Context, _ *http.Client, role listener) error {
			mu.Lock()
			began[role.port]++
			mu.Unlock()
			if role.port == 1 {
				<-ctx.Done()
			}
			return nil
		}
		s.KeepAlive(RoleObserve, 1, "")
		s.KeepAlive(RoleFault, 2, "")
		time.Sleep(time.Minute + time.Second)
		s.beats.stop()
		if began[1] != 6 || began[2] != 6 {
			t.Errorf("%v beats in a minute", began)
		}
	})
}

// The connection to a pod that answers no beat for as long as roles continue alone is closed, so
// that no request waits for the pod of a dead node. The connection to a pod that responds, even
// with an error, is kept.
func TestHeartbeatHangsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := beating(running("dead", "dead"), running("refuses", "refuses"), running("well", "well"), running("busy", "busy"))
		var mu sync.Mutex
		beats, hungUp := 0, map[string][]time.Duration{}
		s.beats.beat = func(_ context.Context, _ *http.Client, role listener) error {
			mu.Lock()
			defer mu.Unlock()
			switch role.port {
			case 1:
				return context.DeadlineExceeded
			case 2:
				return &jsonhttp.StatusError{Status: http.StatusForbidden}
			case 3:
				if beats++; beats%4 != 0 { // it responds now and then
					return context.DeadlineExceeded
				}
			}
			return nil
		}
		began := time.Now()
		s.beats.hangUp = func(_ *lab.Dialer, _, pod string) { hungUp[pod] = append(hungUp[pod], time.Since(began)) }
		for port, app := range []string{"well", "dead", "refuses", "busy"} {
			s.KeepAlive(app, port, "")
		}
		time.Sleep(2*time.Minute + time.Second)
		s.beats.stop()
		if want := []time.Duration{time.Minute, 110 * time.Second}; len(hungUp) != 1 || !slices.Equal(hungUp["dead"], want) {
			t.Errorf("hung up after %v, want %v", hungUp, want)
		}
	})
}

// Load and worker pods receive no beats, nor do those that the mesh creates. If the observer of
// their node is silent, their connections are closed too, because their node has died.
func TestHeartbeatHangsUpAWholeNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := func(name, app, node string) *corev1.Pod {
			p := running(name, app)
			p.Spec.NodeName = node
			return p
		}
		over := pod("client-over", "client-plain", "dead")
		over.Status.Phase = corev1.PodSucceeded
		waypoint := pod("waypoint", "", "dead")
		waypoint.Labels = nil
		s := beating(pod("o-dead", RoleObserve, "dead"), pod("f-dead", RoleFault, "dead"), pod("f-well", RoleFault, "well"),
			pod("client", "client-plain", "dead"), pod("worker", "server-plain", "dead"), pod("client-2", "client-plain", "well"), over, waypoint)
		var silent atomic.Bool
		hungUp := map[string]int{}
		s.beats.beat = func(context.Context, *http.Client, listener) error {
			if silent.Load() {
				return context.DeadlineExceeded
			}
			return nil
		}
		s.beats.hangUp = func(_ *lab.Dialer, _, pod string) { hungUp[pod]++ }
		s.KeepAlive(RoleObserve, 1, "")
		s.KeepAlive(RoleFault, 2, "")
		time.Sleep(beatEvery + time.Second)
		synctest.Wait()
		silent.Store(true)
		time.Sleep(time.Minute)
		s.beats.stop()
		want := map[string]int{"o-dead": 1, "client": 1, "worker": 1, "waypoint": 1, "f-dead": 1, "f-well": 1}
		if !maps.Equal(hungUp, want) {
			t.Errorf("hung up %v, want %v", hungUp, want)
		}
	})
}

// Time for which the runner stood still does not count as silence of the roles, nor does a beat
// that failed during it. The connection to a role that remains silent is still closed.
func TestHeartbeatStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := beating(running("o", RoleObserve))
		const still = 90 * time.Second
		beats, hungUp, began := 0, []time.Duration{}, time.Now()
		s.beats.beat = func(context.Context, *http.Client, listener) error {
			switch beats++; beats {
			case 1:
				return nil
			case 2:
				time.Sleep(still)
			}
			return context.DeadlineExceeded
		}
		s.beats.hangUp = func(*lab.Dialer, string, string) { hungUp = append(hungUp, time.Since(began)) }
		s.KeepAlive(RoleObserve, 1, "")
		time.Sleep(time.Minute + still)
		s.beats.stop()
		// It last responded after 10 s.
		if want := []time.Duration{beatEvery + still + 4*beatEvery}; !slices.Equal(hungUp, want) {
			t.Errorf("hung up after %v, want %v", hungUp, want)
		}
	})
}
