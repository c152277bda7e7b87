package trial

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/drive/churn"
	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/drive/xds/routeprobe"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/kinds/controlplane/verdict"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

// The plan lists a study's real gateway, and what it takes of shared resources, before it is
// created.
func TestGatewayPlan(t *testing.T) {
	for _, change := range []string{controlplane.ChangeGatewayRoute, controlplane.ChangeHTTPRoute} {
		planned := gatewayPlan(studytest.Plan(t, controlText, "change="+change, "control.gateway.probes=3"))
		if len(planned) != 1 || !strings.Contains(planned[0].Object, "real-gateway and real-gateway-backend in namespace "+population.GatewayNamespace) ||
			!strings.Contains(planned[0].Note, "of others' Gateways it receives those that select no pods") || len(planned[0].Wide) > 0 {
			t.Errorf("%s: %+v", change, planned)
		}
	}
	if planned := gatewayPlan(studytest.Plan(t, controlText)); planned != nil {
		t.Errorf("without a gateway: %+v", planned)
	}
}

// A route that the API server rejected is not awaited, neither for being served nor in the status.
func TestRefusedRoutesAreNotAwaited(t *testing.T) {
	role := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		jsonhttp.Answer(w, []routeprobe.Seen{{Change: 0, GoodNS: 1}, {Change: 1}, {Change: 2}})
	}))
	defer role.Close()
	trial := &controlTrial{c: &controlPlane{study: &study.Study{Section: &controlplane.Control{Settle: time.Minute}}}, plan: &churn.Plan{Changes: make([]churn.Change, 3)},
		fleet: fleetAt(role.URL), probing: true, attached: &attachedWatch{seen: []verdict.Attachment{{Routes: firstRoutes + 2}}},
		seen: verdict.Evidence{Changes: []record.Event{{CommittedNS: 1}, {CommittedNS: 1}, {Error: "refused"}}}}
	if n, err := trial.unserved(t.Context()); n != 1 || err != nil {
		t.Errorf("%d routes are waited for, want 1; %v", n, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := trial.awaitAttached(ended); err != nil {
		t.Errorf("the status has all routes that there are, and is waited for: %v", err)
	}
}

// Each distinct status is recorded once, with the routes of all listeners. The status before the
// window counts as its initial one.
func TestAttachedWatch(t *testing.T) {
	status := func(generation int64, routes ...int64) *unstructured.Unstructured {
		var listeners []any
		for _, n := range routes {
			listeners = append(listeners, map[string]any{"attachedRoutes": n})
		}
		return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"generation": generation}, "status": map[string]any{"listeners": listeners}}}
	}
	routes := func(seen []verdict.Attachment) (out []int) {
		for _, a := range seen {
			out = append(out, a.Routes)
		}
		return out
	}
	w := &attachedWatch{}
	for _, o := range []*unstructured.Unstructured{{Object: map[string]any{}}, status(1, 0, 0), status(1, 1, 0), status(2, 1, 0), status(2, 3, 4)} {
		w.note(o)
	}
	if now, seen := w.so(); now != 7 || !slices.Equal(routes(seen), []int{0, 0, 1, 7}) {
		t.Errorf("%d routes, after %+v", now, seen)
	}
	w.forget()
	w.note(status(3, 0, 1))
	if now, seen := w.so(); now != 1 || !slices.Equal(routes(seen), []int{7, 1}) {
		t.Errorf("%d routes, after %+v", now, seen)
	}
	if err := w.await(t.Context(), 1, 0); err != nil {
		t.Error(err)
	}
}
