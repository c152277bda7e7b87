package trial

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

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
	"github.com/meshtrial/meshtrial/study"
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

// The error of waiting for a waypoint that istiod never creates has the state of its Gateway, and
// where to look.
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
	err = trial.findShared(briefly(t))
	for _, want := range []string{"gateway-name=waypoint is ready: there is no such pod", "Programmed is False (Pending: asked for as /apis/gateway.networking.k8s.io/v1/namespaces/meshtrial-run/gateways/waypoint)"} {
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(errs.Hint(err), "logs -l app=istiod") {
			t.Errorf("%v (hint %q); want %q", err, errs.Hint(err), want)
		}
	}
}

// A part that no trial had ends the run with the second trial that waits for it. One that existed for
// an earlier trial, or comes late, only costs its trial.
func TestLasting(t *testing.T) {
	for waits, fatal := range map[string]int{ // by trial: the part that is absent, or none; the trial that ends the run
		"waypoint waypoint": 1, "node node": 1, "waypoint node waypoint": 2,
		"waypoint none waypoint waypoint": -1, "node waypoint node": -1,
	} {
		trial := &scenarioTrial{stage: &stage{}, scene: &scene{cell: record.Cell{study.FactorSidecars: study.SidecarsWaypoint}}}
		for i, part := range strings.Fields(waits) {
			var waited error
			if part != "none" {
				waited = absent{map[string]string{"node": record.PartNode, "waypoint": record.PartWaypoint}[part], errors.New("its image is being pulled")}
			}
			if err := trial.lasting(waited); !errors.Is(err, waited) || runner.IsFatal(err) != (i == fatal) {
				t.Errorf("%s, trial %d: %v, fatal %v", waits, i, err, runner.IsFatal(err))
			}
		}
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
			if err == nil || !strings.Contains(err.Error(), `node one has not added pod front-1 to the node's proxy`) || runner.IsFatal(err) != (turn > 0) {
				t.Errorf("trial %d: %v, fatal %v", turn, err, runner.IsFatal(err))
			}
		}
		pod.Annotations = map[string]string{"ambient.istio.io/redirection": "enabled"}
		trial.Kube = fakecluster.New(pod)
		if err := trial.findShared(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
