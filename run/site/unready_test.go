package site

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
)

// oneObject is a cluster whose API server returns one object, or a not-found error for "".
type oneObject struct {
	lab.Lab
	url, path, object string
}

func (o *oneObject) RESTConfig() *rest.Config { return &rest.Config{Host: o.url} }

func (o *oneObject) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path != o.path || o.object == "" {
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonNotFound, Code: 404})
		return
	}
	_, _ = io.WriteString(w, o.object)
}

// Once the wait is over, the error contains why a proxy is not ready and the status of the
// object it is created from.
func TestUnready(t *testing.T) {
	const (
		path   = "/apis/gateway.networking.k8s.io/v1/namespaces/ns/gateways/waypoint"
		head   = `{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "waypoint", "namespace": "ns"}`
		status = `, "status": {"conditions": [{"type": "Accepted", "status": "True", "reason": "Accepted", "message": "Resource accepted"},
			{"type": "Programmed", "status": "False", "reason": "AddressNotAssigned", "message": "no address yet"}]}}`
	)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "waypoint-1", Labels: map[string]string{"of": "waypoint"}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{Name: "istio-proxy",
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "there is no such image"}}}}}}
	for name, c := range map[string]struct {
		object string
		pods   []runtime.Object
		over   bool
		want   []string
		not    string
	}{
		"never programmed":    {head + status, nil, true, []string{"is ready: there is no such pod", "conditions of Gateway waypoint: ", "Programmed is False (AddressNotAssigned: no address yet)"}, ""},
		"a pod without image": {head + status, []runtime.Object{pod}, true, []string{"waypoint-1: container istio-proxy is waiting: ImagePullBackOff there is no such image", "Accepted is True"}, "no such pod"},
		"nobody looked at it": {head + "}", nil, true, []string{"conditions of Gateway waypoint: none"}, ""},
		"it is gone":          {"", nil, true, []string{"the status of gateways waypoint is unknown: "}, ""},
		"not over":            {head + status, nil, false, []string{"there is no such pod"}, "Gateway"},
	} {
		t.Run(name, func(t *testing.T) {
			api := &oneObject{path: path, object: c.object}
			server := httptest.NewServer(api)
			defer server.Close()
			api.url = server.URL
			s := &Site{lab: api, Kube: fakecluster.New(c.pods...)}
			proxies := mesh.Proxies{Namespace: "ns", Selector: "of=waypoint", Hint: "look there",
				Of: &mesh.Source{Resource: schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gateways"}, Name: "waypoint"}}
			_, err := s.FindProxy(t.Context(), proxies, "")
			ctx := t.Context()
			if c.over {
				over, cancel := context.WithDeadline(ctx, time.Now())
				defer cancel()
				ctx = over
			}
			err = s.unready(ctx, proxies, err)
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v; want %q", err, want)
				}
			}
			if c.not != "" && strings.Contains(err.Error(), c.not) {
				t.Errorf("%v; want no %q", err, c.not)
			}
			if errs.Hint(err) != "look there" {
				t.Errorf("hint %q", errs.Hint(err))
			}
		})
	}
}
