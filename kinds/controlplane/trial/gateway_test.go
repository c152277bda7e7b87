package trial

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/internal/studytest"
	"github.com/meshtrial/meshtrial/kinds/controlplane/verdict"
	"github.com/meshtrial/meshtrial/population"
	"github.com/meshtrial/meshtrial/study"
)

// The real gateway is where the simulated ones are, which are told of the routes of its
// Gateway only there; without any it is where Sidecars of the scope are for.
func TestEdgeOf(t *testing.T) {
	for sets, want := range map[string]string{"gateways=2": population.GatewayNamespace, "gateways=0 proxies=3": population.Namespace(1)} {
		plan := studytest.Plan(t, controlText, append(strings.Fields(sets), "change=httproute", "control.gateway.probes=3")...)
		l, err := study.ControlOf(plan.Cells[0])
		if err != nil {
			t.Fatal(err)
		}
		edge := edgeOf(plan.Study.Control, l)
		if edge == nil || edge.Service.Namespace != want || edge.Backend.Namespace != want || edge.Service.Name == edge.Backend.Name {
			t.Errorf("%s: %+v, want namespace %s", sets, edge, want)
		}
	}
	s, _, l := controlCell(t)
	if edge := edgeOf(s.Control, l); edge != nil {
		t.Errorf("a study without a gateway has %+v", edge)
	}
}

// A real gateway takes requests, so that others' policies matter; HTTPRoutes need the
// Gateway API.
func TestAsksForGateway(t *testing.T) {
	for sets, want := range map[string][2]bool{
		"": {false, false},
		"change=gateway-route control.gateway.probes=3": {true, false},
		"change=httproute control.gateway.probes=0":     {true, true},
	} {
		asked, err := Asks(studytest.Plan(t, controlText, strings.Fields(sets)...))
		if got := [2]bool{asked.Served, asked.GatewayAPI}; err != nil || got != want || asked.Sent || (len(asked.Proxies) > 0) != asked.Served {
			t.Errorf("%s: %+v, %v", sets, asked, err)
		}
	}
}

// Each other status is noted once, with the routes of all listeners; what was before
// the window counts as what it began with.
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
