package trial

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/site"
	"github.com/meshtrial/meshtrial/study"
)

func TestAwaitQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		const told = 7 * time.Second // the last of what a sidecar is told, something every second until then
		read := func(context.Context) (float64, error) {
			return float64(min(time.Since(begin), told) / time.Second), nil
		}
		if err := awaitQuiet(t.Context(), read); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took < told+toldQuiet || took > told+toldQuiet+2*toldLook {
			t.Errorf("quiet after %v, told until %v", took, told)
		}
		gone := errors.New("gone")
		if err := awaitQuiet(t.Context(), func(context.Context) (float64, error) { return 0, gone }); !errors.Is(err, gone) {
			t.Errorf("got %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		never := 0.0
		if err := awaitQuiet(ctx, func(context.Context) (float64, error) { never++; return never, nil }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

func TestAwaitEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		no, yes := false, true
		slice := func(name string, ready *bool) *discoveryv1.EndpointSlice {
			return &discoveryv1.EndpointSlice{
				ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: "server"}},
				Endpoints:  []discoveryv1.Endpoint{{Conditions: discoveryv1.EndpointConditions{Ready: ready}}},
			}
		}
		kube, begin := fakecluster.New(slice("a", &no), slice("b", nil)), time.Now()
		time.AfterFunc(3*time.Second, func() { kube.Tracker().Add(slice("c", &yes)) })
		d := &deployed{
			Site:     &site.Site{Kube: kube, Namespace: "n"},
			topology: topology{servers: map[study.Variant]mesh.Workload{{}: {Name: "server"}}},
		}
		if err := d.awaitEndpoints(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took < 3*time.Second || took > 3*time.Second+toldLook {
			t.Errorf("after %v", took)
		}
	})
}

// Endpoints of pods that are no more are waited out.
func TestHasReady(t *testing.T) {
	yes, no := true, false
	of := func(uid types.UID, ready *bool) discoveryv1.Endpoint {
		e := discoveryv1.Endpoint{Conditions: discoveryv1.EndpointConditions{Ready: ready}}
		if uid != "" {
			e.TargetRef = &corev1.ObjectReference{UID: uid}
		}
		return e
	}
	for _, c := range []struct {
		name, uid string
		endpoints []discoveryv1.Endpoint
		want      bool
	}{
		{"none", "new", nil, false},
		{"its own", "new", []discoveryv1.Endpoint{of("new", &yes)}, true},
		{"not ready", "new", []discoveryv1.Endpoint{of("new", &no)}, false},
		{"the one before", "new", []discoveryv1.Endpoint{of("old", &yes)}, false},
		{"both", "new", []discoveryv1.Endpoint{of("new", &yes), of("old", &yes)}, false},
		{"the one before is going", "new", []discoveryv1.Endpoint{of("new", &yes), of("old", &no)}, true},
		{"it does not say whose", "new", []discoveryv1.Endpoint{of("", &yes)}, true},
		{"any", "", []discoveryv1.Endpoint{of("old", &yes)}, true},
	} {
		if got := hasReady([]discoveryv1.EndpointSlice{{Endpoints: c.endpoints}}, c.uid); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
