package kubelet

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	worker = Container{"u", "worker"}
	proxy  = Container{"u", "proxy"}
	istiod = Container{"i", ""}
)

// node is a kubelet whose containers use half a CPU from start on, and are sampled
// independently. A period of 0 is a kubelet that samples on demand.
type node struct {
	mu      sync.Mutex
	periods map[Container]time.Duration
	failed  error
	restart time.Time     // of all containers; zero: none
	ahead   time.Duration // of its clock
	asked   int
}

func (n *node) read(ctx context.Context, name string) (Page, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked++
	if n.failed != nil {
		return Page{}, n.failed
	}
	out := Page{Containers: map[Container]Stats{}}
	for c, period := range n.periods {
		at := time.Now()
		if period > 0 {
			at = at.Truncate(period)
		}
		used := at.Sub(at.Truncate(time.Hour)) / 2
		if !n.restart.IsZero() && at.After(n.restart) {
			used = at.Sub(n.restart) / 2
		}
		said := at.Add(n.ahead)
		out.Containers[c] = Stats{CPU: Sample{At: said, UsedNS: uint64(used)}, Memory: int64(at.Sub(at.Truncate(time.Hour)) / time.Millisecond), MemoryAt: said}
		out.Node.CPU = Sample{At: said, UsedNS: uint64(2 * used)}
	}
	return out, nil
}

// A window between samples is measured, whenever the kubelet takes them.
func TestWatch(t *testing.T) {
	for _, tt := range []struct {
		name    string
		periods map[Container]time.Duration
		window  time.Duration
		pace    time.Duration // minimum
	}{
		{"a kubelet that samples when asked", map[Container]time.Duration{worker: 0, istiod: 0}, 10 * time.Second, 0},
		{"cAdvisor, each container at a time of its own", map[Container]time.Duration{worker: 13 * time.Second, istiod: 17 * time.Second}, 84 * time.Second, Longest},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node{periods: tt.periods}
				wanted := map[string][]Container{"a": {worker, istiod}}
				w := Start(t.Context(), n.read, wanted, Asking)
				pace, err := w.Pace(t.Context())
				w.Stop()
				if err != nil || pace < tt.pace || LeastWindow(pace) > tt.window {
					t.Fatalf("samples %v apart take a window of %v: %v", pace, LeastWindow(pace), err)
				}
				w = Start(t.Context(), n.read, wanted, Every(tt.window))
				defer w.Stop()
				begin := time.Now()
				first, err := w.Await(t.Context(), begin)
				if err != nil || first.Before(begin) {
					t.Fatalf("%v, %v", first, err)
				}
				end := first.Add(tt.window)
				last, err := w.Await(t.Context(), end)
				if err != nil || last.Before(end) || time.Since(end) > Longest {
					t.Fatalf("%v, %v", last, err)
				}
				for _, c := range wanted["a"] {
					u, err := w.CPU("a", c, first, end)
					if err != nil || u.Seconds < 0.4999*tt.window.Seconds() || u.Seconds > 0.5001*tt.window.Seconds() || u.ErrorS > 0.01 {
						t.Errorf("%s: %+v, %v", c, u, err)
					}
				}
				u, err := w.Node("a", first, end)
				if short := (*ShortError)(nil); err != nil && !errors.As(err, &short) || u.Seconds < 0.999*tt.window.Seconds() {
					t.Errorf("the node: %+v, %v", u, err)
				}
				at := end.Sub(end.Truncate(time.Hour)).Milliseconds()
				if m := w.Memory("a", worker, end); m < at-20000 || m > at+20000 {
					t.Errorf("%d bytes at %d ms", m, at)
				}
			})
		})
	}
}

// A cluster whose clocks differ from this machine's is awaited by its own clocks.
func TestWatchByAnotherClock(t *testing.T) {
	for _, ahead := range []time.Duration{-time.Hour, -20 * time.Second, 20 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			n := &node{periods: map[Container]time.Duration{worker: 13 * time.Second}, ahead: ahead}
			w := Start(t.Context(), n.read, map[string][]Container{"a": {worker}}, Every(84*time.Second))
			defer w.Stop()
			w.Ahead = ahead
			first, err := w.Await(t.Context(), time.Now().Add(ahead))
			must.OK(t, err)
			end := first.Add(84 * time.Second)
			if last, err := w.Await(t.Context(), end); err != nil || last.Before(end) {
				t.Fatalf("%v ahead: %v, %v", ahead, last, err)
			}
			least, most, known := w.NodeAhead("a")
			if !known || least > ahead || most < ahead || most-least > Every(84*time.Second)+time.Second {
				t.Errorf("%v ahead: from %v to %v, known %v", ahead, least, most, known)
			}
			n.mu.Lock()
			n.periods[worker] = 10 * time.Hour // no more samples
			n.mu.Unlock()
			began := time.Now()
			if _, err := w.Await(t.Context(), began.Add(ahead)); err == nil || time.Since(began) > time.Minute {
				t.Errorf("%v ahead: after %v: %v", ahead, time.Since(began), err)
			}
		})
	}
}

// The pace of nodes whose clocks differ by an hour is found within a minute.
func TestPaceByClocksApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := map[string]*node{"a": {periods: map[Container]time.Duration{worker: 13 * time.Second}}, "b": {periods: map[Container]time.Duration{istiod: 17 * time.Second}, ahead: time.Hour}}
		w := Start(t.Context(), func(ctx context.Context, name string) (Page, error) { return nodes[name].read(ctx, name) }, map[string][]Container{"a": {worker}, "b": {istiod}}, Asking)
		defer w.Stop()
		began := time.Now()
		if pace, err := w.Pace(t.Context()); err != nil || pace < 17*time.Second || time.Since(began) > time.Minute {
			t.Errorf("after %v: %v, %v", time.Since(began), pace, err)
		}
		if least, sampled := w.AtLeastAhead("b"); !sampled || least < time.Hour-17*time.Second || least > time.Hour {
			t.Errorf("%v, %v", least, sampled)
		}
	})
}

// A sample that is missing because a clock is behind is reported along with that clock.
func TestWatchSaysWhoseClockIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{periods: map[Container]time.Duration{worker: 13 * time.Second}, ahead: -50 * time.Second}
		w := Start(t.Context(), n.read, map[string][]Container{"a": {worker}}, Every(84*time.Second))
		defer w.Stop()
		_, err := w.Await(t.Context(), time.Now())
		if err == nil || !strings.Contains(err.Error(), "node a has sampled container worker of pod u last at") || !strings.Contains(err.Error(), "behind that of the load generator") || !strings.Contains(errs.Hint(err), "NTP") {
			t.Errorf("%v; hint %q", err, errs.Hint(err))
		}
	})
}

// The difference of clocks is unknown until a new sample has arrived.
func TestNodeAheadUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{periods: map[Container]time.Duration{worker: time.Hour}}
		w := Start(t.Context(), n.read, map[string][]Container{"a": {worker}}, time.Second)
		defer w.Stop()
		time.Sleep(20 * time.Second)
		if least, most, known := w.NodeAhead("a"); known {
			t.Errorf("from %v to %v", least, most)
		}
		if _, _, known := w.NodeAhead("b"); known {
			t.Error("a node that was not watched")
		}
	})
}

// Errors name the node and the container, and say what to do.
func TestWatchFails(t *testing.T) {
	refused := errs.WithHint(fmt.Errorf("ask the kubelet of node a: %w",
		&apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "no"}}), "it takes the right to get nodes/proxy")
	for _, tt := range []struct {
		name       string
		node       *node
		want, hint string
		most       time.Duration // until it is reported
	}{
		{"a kubelet that refuses is told at once", &node{failed: refused}, "ask the kubelet of node a: no", "nodes/proxy", time.Second},
		{"one that does not answer, later", &node{failed: errors.New("connection refused")}, "connection refused", "", time.Minute},
		{"a summary without the pod", &node{periods: map[Container]time.Duration{worker: 0}}, "the kubelet of node a says nothing of container proxy of pod u", "kubectl get --raw", time.Minute},
		{"samples that do not come", &node{periods: map[Container]time.Duration{worker: 0, proxy: time.Hour}}, "the kubelet of node a has sampled container proxy of pod u last at 00:00:00.000", "", time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Minute) // past midnight, where the bubble's time starts
				w := Start(t.Context(), tt.node.read, map[string][]Container{"a": {worker, proxy}}, time.Second)
				defer w.Stop()
				began := time.Now()
				_, err := w.Await(t.Context(), began)
				if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(errs.Hint(err), tt.hint) || time.Since(began) > tt.most {
					t.Errorf("after %v: %v; hint %q", time.Since(began), err, errs.Hint(err))
				}
			})
		})
	}
}

// A container that may end is awaited only while its kubelet reports it, and for no
// longer than a sample may take. Waiting then returns the samples of the others.
func TestWatchOfWhatMayEnd(t *testing.T) {
	const period = 13 * time.Second
	for _, tt := range []struct {
		name   string
		period time.Duration // between its samples
		ends   time.Duration // after the watch started; 0: before
		takes  time.Duration
		sample time.Duration // the last awaited one, after the watch started
	}{
		{"it stays", period, time.Hour, period - time.Second, period - time.Second},
		{"it has ended", period, 0, 0, 0},
		{"it ends", period, 5500 * time.Millisecond, 6 * time.Second, 0},
		{"its samples do not come", 10 * time.Hour, time.Hour, Longest + Patience, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now().Truncate(period).Add(period + time.Second)
				time.Sleep(time.Until(begin))
				n := &node{periods: map[Container]time.Duration{worker: 0, proxy: tt.period}}
				if tt.ends == 0 {
					delete(n.periods, proxy)
				}
				end := time.AfterFunc(tt.ends, func() {
					n.mu.Lock()
					defer n.mu.Unlock()
					delete(n.periods, proxy)
				})
				defer end.Stop()
				w := Start(t.Context(), n.read, map[string][]Container{"a": {worker, proxy}}, time.Second)
				defer w.Stop()
				w.MayEnd = map[Container]bool{proxy: true}
				last, err := w.Await(t.Context(), begin)
				if took := time.Since(begin); err != nil || took != tt.takes || last.Sub(begin) != tt.sample {
					t.Errorf("after %v, want %v: the last sample is %v after the beginning, want %v; %v", took, tt.takes, last.Sub(begin), tt.sample, err)
				}
			})
		})
	}
}

func TestWatchRestartsAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Minute)
		n := &node{periods: map[Container]time.Duration{worker: 0}, restart: time.Now().Add(5 * time.Second)}
		w := Start(t.Context(), n.read, map[string][]Container{"a": {worker}}, time.Second)
		first, err := w.Await(t.Context(), time.Now())
		must.OK(t, err)
		end := first.Add(10 * time.Second)
		must.OK(t, must.Err(w.Await(t.Context(), end)))
		if _, err := w.CPU("a", worker, first, end); !errors.Is(err, ErrReset) {
			t.Errorf("a container that restarted: %v", err)
		}
		if _, err := w.CPU("b", worker, first, end); err == nil || !strings.Contains(err.Error(), "container worker of pod u on node b was not watched") {
			t.Errorf("%v", err)
		}
		w.Stop()
		asked := n.asked
		time.Sleep(time.Minute)
		if n.asked != asked {
			t.Error("it is asked after the end")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := w.Await(ctx, time.Now()); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}

func TestEvery(t *testing.T) {
	for window, want := range map[time.Duration]time.Duration{time.Second: leastEvery, 12 * time.Second: 2 * time.Second, 5 * time.Minute: mostEvery} {
		if got := Every(window); got != want {
			t.Errorf("%v: %v, want %v", window, got, want)
		}
	}
	// Polled that often, a kubelet that samples on demand supports the shortest window.
	if gapsInWindow*Every(Least) >= Least {
		t.Errorf("%v between samples in %v", Every(Least), Least)
	}
	for gap, want := range map[time.Duration]time.Duration{time.Second: Least, 15*time.Second + 1: 61 * time.Second, Longest: 84 * time.Second} {
		if got := LeastWindow(gap); got != want {
			t.Errorf("%v: %v, want %v", gap, got, want)
		}
	}
}
