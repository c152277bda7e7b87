package trial

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/meshtrial/meshtrial/drive/fault/node"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/testing/must"
)

// A component is away only once none of its pods will be replaced, none exists, and nothing of a
// deleted one runs.
func TestProvedAway(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "istiod", Namespace: "istio-system", Labels: map[string]string{"app": "istiod"}, Generation: 2}
	istiod := func(observed int64, pods int32) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: meta, Status: appsv1.DeploymentStatus{ObservedGeneration: observed, Replicas: pods}}
	}
	restarted := []node.Process{{PID: 1, Kind: node.KindInit, State: "S"}, {PID: 7, Kind: node.KindIstiod, State: "S"}}
	for name, c := range map[string]struct {
		there []runtime.Object
		runs  []node.Process // nil: the node does not know the pod
		away  bool
	}{
		"away":                       {[]runtime.Object{istiod(2, 0)}, nil, true},
		"only its sandbox":           {[]runtime.Object{istiod(2, 0)}, restarted[:1], true},
		"the Deployment did not see": {[]runtime.Object{istiod(1, 0)}, nil, false},
		"a pod is being replaced":    {[]runtime.Object{istiod(2, 1)}, nil, false},
		"a pod exists":               {[]runtime.Object{istiod(2, 0), &corev1.Pod{ObjectMeta: meta}}, nil, false},
		"its container restarted":    {[]runtime.Object{istiod(2, 0)}, restarted, false},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if c.runs == nil {
				jsonhttp.Refuse(w, http.StatusNotFound, errors.New("not on this node"))
				return
			}
			jsonhttp.Answer(w, c.runs)
		}))
		pods := &controlPods{kube: fakecluster.New(c.there...), namespace: "istio-system", selector: "app=istiod"}
		killed := &execution{prove: func(context.Context) (string, error) { return "", nil }}
		step, err := pods.away(t.Context(), node.KindIstiod, killed, []victim{{pod: site.Pod{UID: "1"}, client: node.Client{BaseURL: server.URL}}})
		must.OK(t, err)
		if _, err := step.Prove(briefly(t)); (err == nil) != c.away {
			t.Errorf("%s: %v", name, err)
		}
		server.Close()
	}
}
