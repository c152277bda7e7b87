package trial

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	xdscontrol "github.com/meshtrial/meshtrial/drive/xds/control"
	"github.com/meshtrial/meshtrial/drive/xds/routeprobe"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/kinds/ingress"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/testing/must"
)

// fakeIngress only knows where its proxies are.
type fakeIngress struct{ mesh.Ingress }

func (fakeIngress) GatewayProxies(string, string) mesh.Proxies {
	return mesh.Proxies{Hint: "look at its log"}
}

// trialOf returns a trial in a cluster with these objects.
func trialOf(t *testing.T, l ingress.Levels, objects ...*unstructured.Unstructured) *trial {
	t.Helper()
	w, err := newWorld("ns", "b000-t00", l, time.Now())
	must.OK(t, err)
	lists := map[schema.GroupVersionResource]string{resourceOf("Gateway"): "GatewayList", resourceOf("HTTPRoute"): "HTTPRouteList"}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists)
	for _, o := range objects {
		_, err := client.Resource(resourceOf(o.GetKind())).Namespace("ns").Create(t.Context(), o, metav1.CreateOptions{})
		must.OK(t, err)
	}
	return &trial{stage: &stage{Site: &site.Site{Namespace: "ns"}, objects: client},
		levels: l, world: w, of: fakeIngress{}, churn: &ingress.Churn{Every: time.Millisecond, Timeout: time.Second, WatchEvery: time.Second}}
}

// A Gateway that is never programmed ends the wait in bounded time, with its conditions and where to
// look.
func TestNeverProgrammed(t *testing.T) {
	l := ingress.Levels{Routes: 1, Listeners: 1}
	w, err := newWorld("ns", "b000-t00", l, time.Now())
	must.OK(t, err)
	gateway := w.gateway()
	gateway.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Programmed", "status": "False", "reason": "NoResources", "message": "no proxy"}}}
	err = trialOf(t, l, gateway).awaitProgrammed(t.Context(), time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "ns/gateway-b000-t00 is not programmed after 1ms: Programmed is False (NoResources: no proxy)") || errs.Hint(err) != "look at its log" {
		t.Errorf("%v (hint %q)", err, errs.Hint(err))
	}
	gateway.Object["status"] = map[string]any{"addresses": []any{map[string]any{"value": "10.0.0.1"}}, "conditions": []any{map[string]any{"type": "Programmed", "status": "True"}}}
	tr := trialOf(t, l, gateway)
	looks := 0
	tr.objects.(*fake.FakeDynamicClient).PrependReactor("get", "gateways", func(clienttesting.Action) (bool, runtime.Object, error) {
		looks++
		return looks == 1, nil, apierrors.NewServiceUnavailable("the API server is busy for a moment")
	})
	if err := tr.awaitProgrammed(t.Context(), time.Minute); err != nil || tr.address != "10.0.0.1:80" {
		t.Errorf("at %q: %v", tr.address, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	gateway.Object["status"] = nil
	if err := trialOf(t, l, gateway).awaitProgrammed(ended, time.Minute); err == nil || strings.Contains(err.Error(), "programmed") {
		t.Errorf("an interrupted wait: %v", err)
	}
}

// First routes that are not served end the wait likewise.
func TestNeverServed(t *testing.T) {
	role := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		jsonhttp.Answer(w, []routeprobe.Seen{{Change: 1, Statuses: map[string]int{"404": 3}}})
	}))
	defer role.Close()
	tr := trialOf(t, ingress.Levels{Routes: 2, Listeners: 1})
	tr.address, tr.api = "10.0.0.1:80", xdscontrol.NewClient(role.URL, nil)
	err := tr.awaitServed(t.Context(), 300*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "does not serve 1 of 1 requested routes") || !strings.Contains(err.Error(), "route r00001: answers by status map[404:3]") || errs.Hint(err) != "look at its log" {
		t.Errorf("%v (hint %q)", err, errs.Hint(err))
	}
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			<-r.Context().Done()
		}
		jsonhttp.Answer(w, []routeprobe.Seen{})
	}))
	defer slow.Close()
	tr.api = xdscontrol.NewClient(slow.URL, nil)
	if err := tr.awaitServed(t.Context(), 50*time.Millisecond); err == nil || !strings.Contains(err.Error(), "does not serve 1 of 1 requested routes") {
		t.Errorf("without an answer: %v", err)
	}
}

// Statuses of routes are awaited too, as writing them is work of the ingress.
func TestSilent(t *testing.T) {
	l := ingress.Levels{Routes: 2, Listeners: 1}
	w, err := newWorld("ns", "b000-t00", l, time.Now())
	must.OK(t, err)
	routes := []*unstructured.Unstructured{w.route(firstRoute(0), 0), w.route(firstRoute(1), 1)}
	routes[0].Object["status"] = map[string]any{"parents": []any{map[string]any{"controllerName": "c"}}}
	if n, err := trialOf(t, l, routes...).silent(t.Context()); n != 1 || err != nil {
		t.Errorf("%d routes without a status, %v", n, err)
	}
}
