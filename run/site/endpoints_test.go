package site

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/leakcheck"
	"github.com/meshtrial/meshtrial/testing/must"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A watch reports existing objects before it returns, then changes and
// deletions, no objects with another label or namespace, and nothing once
// stopped.
func TestWatchEndpoints(t *testing.T) {
	leakcheck.Goroutines(t)
	meta := func(namespace, name, app string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": app}}
	}
	slice := func(ready bool) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{ObjectMeta: meta("a", "s", "mine"), Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: Ptr(ready)}}, {Addresses: []string{"10.0.0.2", "10.0.0.3"}}}}
	}
	kube := fakecluster.New(slice(true), &corev1.Pod{ObjectMeta: meta("a", "p", "mine")},
		&corev1.Pod{ObjectMeta: meta("a", "other", "yours")}, &corev1.Pod{ObjectMeta: meta("b", "p", "mine")})
	var mu sync.Mutex
	var told []string
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, fmt.Sprintf(format, args...))
	}
	heard := func() []string {
		mu.Lock()
		defer mu.Unlock()
		out := slices.Clone(told)
		slices.Sort(out)
		return out
	}
	ctx, cancel := context.WithCancel(t.Context())
	w, err := WatchEndpoints(ctx, kube, "a", "app=mine",
		func(s *discoveryv1.EndpointSlice, deleted bool) {
			say("slice %s %v leads to %d", s.Name, deleted, len(ReadyAddresses(s, deleted)))
		},
		func(p *corev1.Pod, deleted bool) { say("pod %s %v", p.Namespace+"/"+p.Name, deleted) })
	must.OK(t, err)
	defer w.Stop()
	cancel() // the start has completed
	want := []string{"pod a/p false", "slice s false leads to 3"}
	if got := heard(); !slices.Equal(got, want) {
		t.Errorf("at the beginning: %q", got)
	}
	must.OK(t, must.Err(kube.DiscoveryV1().EndpointSlices("a").Update(t.Context(), slice(false), metav1.UpdateOptions{})))
	must.OK(t, kube.DiscoveryV1().EndpointSlices("a").Delete(t.Context(), "s", metav1.DeleteOptions{}))
	must.OK(t, kube.CoreV1().Pods("a").Delete(t.Context(), "p", metav1.DeleteOptions{}))
	want = append(want, "pod a/p true", "slice s false leads to 2", "slice s true leads to 0")
	slices.Sort(want)
	eventually.Succeeds(t, time.Minute, "all is told", func() error {
		if got := heard(); !slices.Equal(got, want) {
			return fmt.Errorf("%q, want %q", got, want)
		}
		return nil
	})
	w.Stop()
	w.Stop() // a second time
	must.OK(t, must.Err(kube.CoreV1().Pods("a").Create(t.Context(), &corev1.Pod{ObjectMeta: meta("a", "late", "mine")}, metav1.CreateOptions{})))
	time.Sleep(20 * time.Millisecond)
	if got := heard(); !slices.Equal(got, want) {
		t.Errorf("told after the end: %q", got)
	}
}

// A watch that fails to start returns an error, and leaves nothing behind.
func TestWatchEndpointsCancelled(t *testing.T) {
	leakcheck.Goroutines(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := WatchEndpoints(ctx, fakecluster.New(), "a", "", func(*discoveryv1.EndpointSlice, bool) {}, func(*corev1.Pod, bool) {}); err == nil {
		t.Error("a watch began without time for it")
	}
}
