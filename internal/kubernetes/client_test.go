package kubernetes

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/testing/must"
)

// Each resource is requested at its API path, and the response is decoded.
func TestClient(t *testing.T) {
	var asked string
	answers := map[string]string{
		"GET /version":                                    `{"gitVersion": "v1.36.3"}`,
		"GET /apis/networking.istio.io/v1":                `{"kind": "APIResourceList", "apiVersion": "v1", "resources": [{"name": "gateways", "kind": "Gateway", "namespaced": true}]}`,
		"GET /api/v1/namespaces/a/pods/p":                 `{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}, "status": {"phase": "Running"}}`,
		"GET /api/v1/nodes?timeout=7s&timeoutSeconds=7":   `{"kind": "NodeList", "apiVersion": "v1", "items": [{"metadata": {"name": "n"}}]}`,
		"GET /api/v1/namespaces/a/secrets?watch=true":     `{"type": "ADDED", "object": {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "s"}}}`,
		"GET /api/v1/namespaces/a/pods/p/log?container=c": "a line",
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.RequestURI()
		if answer, ok := answers[asked]; ok {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, answer)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`)
	}))
	defer server.Close()
	c, err := NewForConfig(&rest.Config{Host: server.URL})
	must.OK(t, err)
	ctx, list, get := t.Context(), metav1.ListOptions{LabelSelector: "a=b"}, metav1.GetOptions{}
	for want, ask := range map[string]func() error{
		"GET /api/v1/namespaces/a/configmaps/x":      func() error { _, err := c.CoreV1().ConfigMaps("a").Get(ctx, "x", get); return err },
		"GET /api/v1/namespaces?labelSelector=a%3Db": func() error { _, err := c.CoreV1().Namespaces().List(ctx, list); return err },
		"GET /api/v1/nodes/x":                        func() error { _, err := c.CoreV1().Nodes().Get(ctx, "x", get); return err },
		"GET /api/v1/namespaces/a/secrets/x":         func() error { _, err := c.CoreV1().Secrets("a").Get(ctx, "x", get); return err },
		"DELETE /api/v1/namespaces/a/services/x":     func() error { return c.CoreV1().Services("a").Delete(ctx, "x", metav1.DeleteOptions{}) },
		"POST /api/v1/namespaces/a/pods": func() error {
			_, err := c.CoreV1().Pods("a").Create(ctx, &corev1.Pod{}, metav1.CreateOptions{})
			return err
		},
		"PUT /api/v1/namespaces/a/configmaps/x": func() error {
			_, err := c.CoreV1().ConfigMaps("a").Update(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.UpdateOptions{})
			return err
		},
		"GET /api/v1/pods?labelSelector=a%3Db":         func() error { _, err := c.CoreV1().Pods("").List(ctx, list); return err },
		"GET /apis/apps/v1/namespaces/a/daemonsets/x":  func() error { _, err := c.AppsV1().DaemonSets("a").Get(ctx, "x", get); return err },
		"GET /apis/apps/v1/namespaces/a/replicasets/x": func() error { _, err := c.AppsV1().ReplicaSets("a").Get(ctx, "x", get); return err },
		"DELETE /apis/apps/v1/namespaces/a/deployments?labelSelector=a%3Db": func() error {
			return c.AppsV1().Deployments("a").DeleteCollection(ctx, metav1.DeleteOptions{}, list)
		},
		"PATCH /apis/discovery.k8s.io/v1/namespaces/a/endpointslices/x": func() error {
			_, err := c.DiscoveryV1().EndpointSlices("a").Patch(ctx, "x", types.MergePatchType, []byte("{}"), metav1.PatchOptions{})
			return err
		},
		"GET /apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations?labelSelector=a%3Db": func() error {
			_, err := c.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, list)
			return err
		},
		"GET /apis/autoscaling/v2/namespaces/a/horizontalpodautoscalers?labelSelector=a%3Db": func() error {
			_, err := c.AutoscalingV2().HorizontalPodAutoscalers("a").List(ctx, list)
			return err
		},
		"POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews": func() error {
			_, err := c.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{}, metav1.CreateOptions{})
			return err
		},
		"POST /api/v1/namespaces/a/serviceaccounts/x/token": func() error {
			_, err := c.CoreV1().ServiceAccounts("a").CreateToken(ctx, "x", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
			return err
		},
		"GET /apis/none/v1": func() error { _, err := c.Discovery().ServerResourcesForGroupVersion(ctx, "none/v1"); return err },
	} {
		if err := ask(); asked != want || !apierrors.IsNotFound(err) {
			t.Errorf("asked %s, want %s; error %v", asked, want, err)
		}
	}
	if v, err := c.Discovery().ServerVersion(ctx); err != nil || v.GitVersion != "v1.36.3" {
		t.Errorf("version %+v, %v", v, err)
	}
	if r, err := c.Discovery().ServerResourcesForGroupVersion(ctx, "networking.istio.io/v1"); err != nil || len(r.APIResources) != 1 || r.APIResources[0].Kind != "Gateway" {
		t.Errorf("resources %+v, %v", r, err)
	}
	if pod, err := c.CoreV1().Pods("a").Get(ctx, "p", get); err != nil || pod.Name != "p" || pod.Status.Phase != corev1.PodRunning {
		t.Errorf("pod %+v, %v", pod, err)
	}
	seven := int64(7)
	if nodes, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{TimeoutSeconds: &seven}); err != nil || len(nodes.Items) != 1 || nodes.Items[0].Name != "n" {
		t.Errorf("nodes %+v, %v", nodes, err)
	}
	secrets, err := c.CoreV1().Secrets("a").Watch(ctx, metav1.ListOptions{})
	must.OK(t, err)
	defer secrets.Stop()
	if e := <-secrets.ResultChan(); e.Type != "ADDED" || e.Object.(*corev1.Secret).Name != "s" {
		t.Errorf("watched %+v", e)
	}
	log, err := c.CoreV1().Pods("a").GetLogs("p", &corev1.PodLogOptions{Container: "c"}).Stream(ctx)
	must.OK(t, err)
	defer log.Close()
	if text, err := io.ReadAll(log); err != nil || string(text) != "a line" {
		t.Errorf("log %q, %v", text, err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := c.Discovery().ServerVersion(ended); err == nil || !strings.Contains(err.Error(), "cancel") {
		t.Errorf("asked after the context ended: %v", err)
	}
}
