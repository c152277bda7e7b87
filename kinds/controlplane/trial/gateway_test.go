package trial

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/drive/churn"
	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/drive/xds/routeprobe"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/kinds/controlplane/verdict"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/mesh/istio"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
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

// imagesLab is a lab that only supplies images.
type imagesLab struct{ lab.Lab }

func (imagesLab) Images() lab.Images { return lab.Images{Meshtrial: "roles"} }

// A real gateway is rolled out if a lever that proxies read at startup changes, and stays
// otherwise. The pod behind it, which has no proxy, always stays.
func TestGatewayMadeAnew(t *testing.T) {
	kube := fakecluster.New()
	m := &istio.Mesh{}
	c := &controlPlane{Site: &site.Site{Run: "run", Kube: kube}, o: &runner.Options{Lab: imagesLab{}, Mesh: m}}
	templates := func(cell record.Cell) (gateway, backend string) {
		t.Helper()
		must.OK(t, c.makeGateway(t.Context(), m, population.GatewayNamespace, mesh.LeversOf(cell)))
		text := map[string]string{}
		for _, name := range []string{roleGateway, roleBackend} {
			d, err := kube.AppsV1().Deployments(population.GatewayNamespace).Get(t.Context(), name, metav1.GetOptions{})
			must.OK(t, err)
			template, err := json.Marshal(d.Spec.Template)
			must.OK(t, err)
			text[name] = string(template)
		}
		return text[roleGateway], text[roleBackend]
	}
	gateway, backend := templates(nil)
	for _, tt := range []struct {
		cell      record.Cell
		recreated bool
	}{
		{record.Cell{study.FactorDebounceAfter: "500ms"}, false},
		{record.Cell{controlplane.FactorDelta: "false"}, true},
		{record.Cell{controlplane.FactorDelta: "false", controlplane.FactorHBONE: "true"}, true},
		{record.Cell{controlplane.FactorDelta: "false", controlplane.FactorHBONE: "true", controlplane.FactorPushThrottle: "20"}, false},
		{nil, true},
	} {
		now, behind := templates(tt.cell)
		if now != gateway != tt.recreated || behind != backend {
			t.Errorf("%v: recreated %v, the pod behind it %v", tt.cell, now != gateway, behind != backend)
		}
		gateway = now
	}
}

// Real pods that a cell does not have are removed, also if a connection was lost since they were made.
func TestRealPodsGo(t *testing.T) {
	kube := fakecluster.New(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: site.RoleReal, Namespace: "a"}})
	c := &controlPlane{Site: &site.Site{Run: "run", Kube: kube}, deployedReal: true, reals: []site.Pod{{}}}
	c.forget()
	must.OK(t, c.ensureReal(t.Context(), controlplane.Levels{}, mesh.Levers{Namespaces: []string{"a"}}, ""))
	if all, err := kube.AppsV1().Deployments("a").List(t.Context(), metav1.ListOptions{}); err != nil || len(all.Items) > 0 {
		t.Errorf("%+v, %v", all, err)
	}
}

// A route that is not removed in time, after the window, is noted. The window's measurements and
// the status seen so far stay valid, and the wait ends.
func TestDetachGoesOn(t *testing.T) {
	deleted := atomic.Int32{}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if deleted.Add(1) == 1 {
			w.WriteHeader(http.StatusGatewayTimeout)
			fmt.Fprint(w, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Timeout","code":504,"message":"too busy"}`)
			return
		}
		fmt.Fprint(w, `{"apiVersion":"v1","kind":"Status","status":"Success"}`)
	}))
	defer api.Close()
	s, cell, l := controlCell(t, "change=httproute", "control.gateway.probes=0")
	plan, err := churn.NewPlan(churnSpec(s, cell, l, "t", 1))
	must.OK(t, err)
	routes := map[string]bool{}
	for _, c := range plan.Changes {
		routes[c.Object] = true
	}
	driver, err := churn.NewDriver(&rest.Config{Host: api.URL, QPS: -1}, plan)
	must.OK(t, err)
	controlplane.Of(s).Settle = time.Hour
	detach := func(ctx context.Context, attached int64) (*controlTrial, error) {
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		trial := &controlTrial{c: &controlPlane{study: s, say: func(string, ...any) {}}, plan: plan, driver: driver, attached: &attachedWatch{cancel: func() {}}}
		trial.attached.note(&unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"listeners": []any{map[string]any{"attachedRoutes": attached}}}}})
		return trial, trial.detach(ctx)
	}
	trial, err := detach(t.Context(), firstRoutes+1)
	if problems := trial.seen.Problems; err != nil || deleted.Load() != int32(len(routes)) || !noteRoutesLeft.In(problems) || !strings.Contains(note.Words(problems), "too busy") {
		t.Errorf("%v, after %d deletions; noted: %s", err, deleted.Load(), problems)
	}
	if a := trial.seen.Attached; a == nil || a.WithdrawnNS == 0 || len(a.Seen) != 1 || !a.Kept {
		t.Errorf("what the status said is lost: %+v", a)
	}
	trial, err = detach(t.Context(), firstRoutes)
	if a := trial.seen.Attached; err != nil || a == nil || a.Kept || len(trial.seen.Problems) > 0 {
		t.Errorf("all were taken away: %v, %+v, noted: %q", err, a, trial.seen.Problems)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if trial, err := detach(ended, firstRoutes+1); err == nil || trial.seen.Attached != nil {
		t.Errorf("a trial that was cancelled goes on: %v", err)
	}
}
