package podwait

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/internal/podstate"
)

// creating returns a pod whose container is being created.
func creating(name string) corev1.Pod {
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{NodeName: "node1"},
		Status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{Name: "c",
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}}}}
}

func said(reason, message string, count int32) corev1.Event {
	return corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: reason}, Type: corev1.EventTypeWarning, Reason: reason, Message: message, Count: count,
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "ns", Name: "web", UID: "web"}, LastTimestamp: metav1.Now()}
}

// cluster returns a cluster whose event lists come from events, and counts them.
func cluster(events func() ([]corev1.Event, error)) (fakecluster.Cluster, *int) {
	client, asked := fakecluster.New(), new(int)
	client.PrependReactor("list", "events", func(k8stesting.Action) (bool, runtime.Object, error) {
		*asked++
		items, err := events()
		return true, &corev1.EventList{Items: items}, err
	})
	return client, asked
}

// reports keeps what waits report.
type reports struct {
	mu  sync.Mutex
	all []string
}

func (r *reports) add(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, text)
}

var forbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New("no"))

func TestUntil(t *testing.T) {
	again := func(reason, message string) func(took time.Duration) ([]corev1.Event, error) {
		return func(took time.Duration) ([]corev1.Event, error) {
			return []corev1.Event{said(reason, message, 1+int32(took/(12*time.Second)))}, nil
		}
	}
	for name, c := range map[string]struct {
		events   func(took time.Duration) ([]corev1.Event, error)
		pods     func(took time.Duration) []corev1.Pod
		code     podstate.Code // of the problem that ends the wait; "" if its deadline does
		ends     time.Duration // at the latest
		says     string
		reported int // at 15 s
	}{
		"no sandbox": {events: again("FailedCreatePodSandBox", "open /etc/hosts: no such file"), code: podstate.Sandbox, ends: 80 * time.Second, says: "cannot make its sandbox: open /etc/hosts", reported: 1},
		"no object":  {events: again("FailedMount", `configmap "x" not found`), code: podstate.ObjectMissing, ends: 80 * time.Second, says: `configmap "x" not found`, reported: 1},
		"a slow disk": {events: again("FailedAttachVolume", "Multi-Attach error"), ends: 3 * time.Minute,
			says: "deadline exceeded (last seen: 0 of 1 ready; pod ns/web: node node1 cannot mount its volumes: Multi-Attach error", reported: 1},
		"an image": {pods: func(time.Duration) []corev1.Pod {
			p := creating("web")
			p.Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: "ErrImageNeverPull"}
			return []corev1.Pod{p}
		}, code: podstate.ImageAbsent, ends: time.Second, says: "may not pull image"},
		"a sandbox in the end": {events: again("FailedCreatePodSandBox", "plugin not ready"), pods: func(took time.Duration) []corev1.Pod {
			p := creating("web")
			if took > 40*time.Second {
				p.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
			}
			return []corev1.Pod{p}
		}, ends: 3 * time.Minute, says: "deadline exceeded", reported: 1},
		"events that nobody may read": {events: func(time.Duration) ([]corev1.Event, error) { return nil, forbidden }, ends: 3 * time.Minute,
			says: "pod ns/web is not ready: ContainerCreating", reported: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				client, asked := cluster(func() ([]corev1.Event, error) {
					if c.events == nil {
						return nil, nil
					}
					return c.events(time.Since(began))
				})
				var told reports
				ctx, cancel := context.WithTimeout(Reporting(t.Context(), func(text string) {
					if took := time.Since(began); took < ShownAfter || took > ShownAfter+time.Second && len(told.all) == 0 {
						t.Errorf("%q is shown after %v", text, took)
					}
					told.add(text)
				}), 3*time.Minute)
				defer cancel()
				err := Until(ctx, client, "ns", "Deployment ns/web", func(context.Context) (Seen, error) {
					seen := Seen{State: "0 of 1 ready", Pods: []corev1.Pod{creating("web")}}
					if c.pods != nil {
						seen.Pods = c.pods(time.Since(began))
					}
					return seen, nil
				})
				took := time.Since(began)
				var terminal *TerminalError
				if errors.As(err, &terminal) != (c.code != "") || terminal != nil && (terminal.Problem.Code != c.code || errs.Hint(err) == "") {
					t.Errorf("%v (hint %q), want code %q", err, errs.Hint(err), c.code)
				}
				if c.code == "" && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v is no deadline", err)
				}
				if took > c.ends || err == nil || !strings.Contains(err.Error(), "wait for Deployment ns/web: ") || !strings.Contains(err.Error(), c.says) {
					t.Errorf("after %v: %v; want %q", took, err, c.says)
				}
				if len(told.all) < c.reported || len(told.all) > c.reported+1 {
					t.Errorf("reported %q", told.all)
				}
				if c.events != nil {
					if _, err := c.events(0); err != nil && *asked != 1 {
						t.Errorf("asked %d times for what it may not see", *asked)
					}
				}
			})
		})
	}
}

// An API server that is busy for a moment does not end a wait; one that refuses the request does.
func TestUntilAfterErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := cluster(func() ([]corev1.Event, error) { return nil, nil })
		var told reports
		until := func(errs ...error) error {
			ctx, cancel := context.WithTimeout(Reporting(t.Context(), told.add), time.Minute)
			defer cancel()
			looks := 0
			return Until(ctx, client, "ns", "it", func(context.Context) (Seen, error) {
				looks++
				return Seen{Done: looks > len(errs)}, errs[min(looks, len(errs))-1]
			})
		}
		busy := apierrors.NewServiceUnavailable("starting")
		if err := until(busy, busy, nil); err != nil {
			t.Errorf("after two errors: %v", err)
		}
		if err := until(busy, forbidden); !apierrors.IsForbidden(err) {
			t.Errorf("%v", err)
		}
		if err := until(busy); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "last seen: starting") {
			t.Errorf("%v", err)
		}
		if len(told.all) != 1 || !strings.Contains(told.all[0], "starting") {
			t.Errorf("reported %q", told.all)
		}
	})
}

// A short wait does not read events, and a cancelled one reports what it knew.
func TestUntilEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, asked := cluster(func() ([]corev1.Event, error) { return nil, nil })
		looks := 0
		err := Until(t.Context(), client, "ns", "pods", func(context.Context) (Seen, error) {
			looks++
			return Seen{Done: looks == 50, Pods: []corev1.Pod{creating("web")}}, nil
		})
		if err != nil || *asked > 0 || looks != 50 {
			t.Errorf("%v after %d looks, %d lists of events", err, looks, *asked)
		}
		why := errors.New("the run ends")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(12*time.Second, func() { cancel(why) })
		err = Until(ctx, client, "ns", "pods", func(context.Context) (Seen, error) {
			return Seen{State: "0 of 1", Pods: []corev1.Pod{creating("web")}}, nil
		})
		if !errors.Is(err, why) || !strings.Contains(err.Error(), "wait for pods: the run ends (last seen: 0 of 1; container c of pod ns/web is not ready") {
			t.Error(err)
		}
		failed := errors.New("no such resource")
		if err := Until(t.Context(), client, "ns", "pods", func(context.Context) (Seen, error) { return Seen{}, failed }); !errors.Is(err, failed) || !strings.HasPrefix(err.Error(), "wait for pods: ") {
			t.Error(err)
		}
	})
}

// While nothing explains why pods do not become ready, the progress of the wait is shown.
func TestNothingKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := cluster(func() ([]corev1.Event, error) { return nil, nil })
		var told reports
		ctx, cancel := context.WithTimeout(Reporting(t.Context(), told.add), time.Minute)
		defer cancel()
		err := Until(ctx, client, "ns", "Deployment ns/web", func(context.Context) (Seen, error) { return Seen{State: "0 of 1 ready", Missing: 1}, nil })
		if want := []string{"waiting for Deployment ns/web for 15 s: 0 of 1 ready"}; !slices.Equal(told.all, want) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%q, %v", told.all, err)
		}
	})
}

// A wait does not report the error of a client's own rate limiter shortly before a
// deadline.
func TestUntilWithALimit(t *testing.T) {
	client, _ := cluster(func() ([]corev1.Event, error) { return nil, nil })
	limit := flowcontrol.NewTokenBucketRateLimiter(0.5, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := Until(ctx, client, "ns", "Deployment ns/web", func(ctx context.Context) (Seen, error) {
		if err := limit.Wait(ctx); err != nil {
			return Seen{}, fmt.Errorf("client rate limiter Wait returned an error: %w", err)
		}
		return Seen{State: "0 of 1 ready", Pods: []corev1.Pod{creating("web")}}, nil
	})
	if err == nil || strings.Contains(err.Error(), "limiter") || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "wait for Deployment ns/web: ") || !strings.Contains(err.Error(), "0 of 1 ready; container c of pod ns/web") {
		t.Error(err)
	}
}

// Observations by Beside end the wait, and its goroutine ends with it.
func TestBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := cluster(func() ([]corev1.Event, error) { return nil, nil })
		look := func() Seen {
			p := creating("web")
			p.Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: "InvalidImageName", Message: "upper case"}
			return Seen{State: "0 of 1", Pods: []corev1.Pod{p}}
		}
		forever := func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
		var terminal *TerminalError
		if err := Beside(t.Context(), client, "ns", "services", look, forever); !errors.As(err, &terminal) || errs.Code(err) != errs.CodeUsage {
			t.Errorf("%v", err)
		}
		if err := Beside(t.Context(), client, "ns", "services", look, func(context.Context) error { return nil }); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		fine := func() Seen { return Seen{State: "0 of 1", Pods: []corev1.Pod{creating("web")}} }
		if err := Beside(ctx, client, "ns", "services", fine, forever); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "wait for services") || !strings.Contains(err.Error(), "pod ns/web is not ready") {
			t.Error(err)
		}
		fine = func() Seen { return Seen{Pods: []corev1.Pod{creating("web")}} }
		if err := Beside(ctx, client, "ns", "services", fine, forever); !strings.Contains(err.Error(), "(last seen: container c of pod ns/web is not ready") {
			t.Errorf("without a state: %v", err)
		}
		if err := Beside(ctx, client, "ns", "services", func() Seen { return Seen{} }, forever); strings.Contains(err.Error(), "last seen") {
			t.Errorf("of nothing: %v", err)
		}
	})
}

// Many pods with the same problem give one line with a few names, once.
func TestManyPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := cluster(func() ([]corev1.Event, error) { return nil, nil })
		var told reports
		ctx, cancel := context.WithTimeout(Reporting(t.Context(), told.add), time.Minute)
		defer cancel()
		_ = Until(ctx, client, "ns", "pods", func(context.Context) (Seen, error) {
			var seen Seen
			for i := range 100 {
				seen.Pods = append(seen.Pods, creating(fmt.Sprintf("web-%d", i)))
			}
			return seen, nil
		})
		if len(told.all) != 1 || strings.Count(told.all[0], "pod ns/web-") != shownPods || !strings.Contains(told.all[0], "and 97 more") {
			t.Errorf("%q", told.all)
		}
	})
}

func TestPollPause(t *testing.T) {
	var pauses []time.Duration
	for _, took := range []time.Duration{0, time.Millisecond, time.Second, time.Minute} {
		pauses = append(pauses, PollPause(took))
	}
	if want := []time.Duration{100 * time.Millisecond, 99 * time.Millisecond, 4 * time.Second, 5 * time.Second}; !slices.Equal(pauses, want) {
		t.Errorf("%v, want %v", pauses, want)
	}
}
