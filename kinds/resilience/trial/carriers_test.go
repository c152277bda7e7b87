package trial

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/run/site/sitetest"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

// unprogrammed is a cluster without a waypoint for the Gateway.
type unprogrammed struct {
	lab.Lab
	url string
}

func (u *unprogrammed) RESTConfig() *rest.Config { return &rest.Config{Host: u.url} }

func (*unprogrammed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "waypoint"},
		"status": {"conditions": [{"type": "Programmed", "status": "False", "reason": "Pending", "message": "asked for as %s"}]}}`, r.URL.Path)
}

// A waypoint that istiod never creates ends the run with the second trial that waits for it, and
// reports the state of its Gateway. One that existed for an earlier trial, or comes late, only
// costs its trial.
func TestNoWaypoint(t *testing.T) {
	plan := studytest.Plan(t, strings.NewReplacer("sidecars: ambient", "sidecars: waypoint", ", {to: old}", "", ", old: {sidecar: false}", "").Replace(ambientServices))
	s := sceneIn(t, plan, plan.Cells[0], sitetest.Istio())
	api := &unprogrammed{}
	server := httptest.NewServer(api)
	defer server.Close()
	api.url = server.URL
	at, err := site.New(api, s.mesh, "run")
	must.OK(t, err)
	at.Kube = fakecluster.New()
	trial := &scenarioTrial{stage: &stage{Site: at, say: func(string, ...any) {}}, scene: s, census: &census{pods: map[string]*resident{}}}
	for name, before := range map[string]record.Way{"never": nil, "another part": {record.PartNode}, "before": {record.PartNode, record.PartWaypoint}} {
		trial.carriers, trial.missed = before, nil
		for turn := range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			err := trial.findShared(ctx)
			cancel()
			for _, want := range []string{"gateway-name=waypoint is ready: there is no such pod", "Programmed is False (Pending: asked for as /apis/gateway.networking.k8s.io/v1/namespaces/meshtrial-run/gateways/waypoint)"} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v; want %q", name, err, want)
				}
			}
			if want := turn > 0 && name != "before"; runner.IsFutile(err) != want || !strings.Contains(errs.Hint(err), "logs -l app=istiod") {
				t.Errorf("%s, trial %d: futile %v, hint %q", name, turn, runner.IsFutile(err), errs.Hint(err))
			}
		}
	}
	// A pod that the node agent has yet to redirect is not a wait for a waypoint, nor vice versa.
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: "front-1", Labels: map[string]string{"istio.io/dataplane-mode": "ambient"}},
		Spec: corev1.PodSpec{NodeName: "one"}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
	for _, first := range []bool{true, false} {
		trial.carriers, trial.missed = nil, nil
		for turn, taken := range []bool{first, !first, first} {
			want := "wait until Istio's node agent has added pods"
			at.Kube = fakecluster.New(pod)
			if taken {
				at.Kube, want = fakecluster.New(), "gateway-name=waypoint is ready"
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			err := trial.findShared(ctx)
			cancel()
			futile := turn == 2 && first // the other one's node had its proxy
			if err == nil || !strings.Contains(err.Error(), want) || runner.IsFutile(err) != futile {
				t.Errorf("taken %v first, trial %d: %v, futile %v, want %q", first, turn, err, runner.IsFutile(err), want)
			}
		}
	}
	trial.carriers, trial.missed = nil, nil
	slow := absent{record.PartWaypoint, errors.New("its image is being pulled")}
	for i, waited := range []error{slow, nil, slow, slow} {
		if err := trial.lasting(waited); !errors.Is(err, waited) || runner.IsFutile(err) {
			t.Errorf("a slow one, trial %d: %v", i, err)
		}
	}
	if !trial.carriers.Has(record.PartWaypoint) {
		t.Errorf("what was there is not known: %v", trial.carriers)
	}
}

// A pod that Istio's node agent never redirects ends the run too.
func TestNotRedirected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "run", Name: "front-1", Labels: map[string]string{"istio.io/dataplane-mode": "ambient"}},
			Spec: corev1.PodSpec{NodeName: "one"}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
		trial := sharedTrial(fakecluster.New(pod))
		trial.scene, trial.Namespace, trial.census = ambientScene(t), "run", &census{pods: map[string]*resident{}}
		for turn := range 2 {
			err := trial.findShared(t.Context())
			if err == nil || !strings.Contains(err.Error(), `node one has not added pod front-1 to the node's proxy`) || runner.IsFutile(err) != (turn > 0) {
				t.Errorf("trial %d: %v, futile %v", turn, err, runner.IsFutile(err))
			}
		}
		pod.Annotations = map[string]string{"ambient.istio.io/redirection": "enabled"}
		trial.Kube = fakecluster.New(pod)
		if err := trial.findShared(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
