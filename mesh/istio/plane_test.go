package istio

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/testing/must"
	admission "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

// ofRevision returns the objects of a revision's istiod that Plane reads, as its chart
// creates them.
func ofRevision(revision, config string, serves bool) []runtime.Object {
	suffix := "-" + revision
	if revision == defaultRevision {
		suffix = ""
	}
	is := func(key string, operator metav1.LabelSelectorOperator, values ...string) metav1.LabelSelectorRequirement {
		return metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: values}
	}
	hook := admission.MutatingWebhook{Name: "rev.namespace.sidecar-injector.istio.io",
		NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{is(revisionLabel, metav1.LabelSelectorOpIn, revision), is(namespaceInjection, metav1.LabelSelectorOpDoesNotExist)}},
		ObjectSelector:    &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{is(injectLabel, metav1.LabelSelectorOpNotIn, "false")}}}
	if serves {
		hook.ClientConfig.CABundle = []byte("root")
	}
	return []runtime.Object{
		istiodOf(revision),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: meshConfigMap + suffix}, Data: map[string]string{meshConfigKey: config}},
		&admission.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "istio-sidecar-injector" + suffix, Labels: map[string]string{"app": "sidecar-injector", revisionLabel: revision}},
			Webhooks: []admission.MutatingWebhook{hook}},
	}
}

// A namespace is moved by the labels that the other revision's injector and both istiods'
// selectors require, and only if these exist.
func TestPlane(t *testing.T) {
	const ours, shop = "discoverySelectors: [{matchLabels: {app.kubernetes.io/part-of: meshtrial}}]\n", "discoverySelectors: [{matchLabels: {mesh: shop}}]\n"
	const injected = "discoverySelectors: [{matchLabels: {istio-injection: enabled}}]\n"
	for name, tt := range map[string]struct {
		from, fromConfig, toConfig string
		serves                     bool
		asked                      string
		labels, pods               map[string]string
		err                        string
	}{
		"to another":                      {from: "default", serves: true, asked: "canary", labels: map[string]string{"istio.io/rev": "canary", "istio-injection": ""}, pods: map[string]string{"istio.io/rev": ""}},
		"back to the default one":         {from: "default", serves: true, labels: map[string]string{"istio.io/rev": "", "istio-injection": ""}, pods: map[string]string{"istio.io/rev": ""}},
		"back to one by pods' labels":     {from: "stable", serves: true, labels: map[string]string{"istio.io/rev": "", "istio-injection": ""}, pods: map[string]string{"istio.io/rev": "stable"}},
		"with what the other selects":     {from: "default", toConfig: shop, serves: true, asked: "canary", labels: map[string]string{"istio.io/rev": "canary", "istio-injection": "", "mesh": "shop"}, pods: map[string]string{"istio.io/rev": ""}},
		"both select ours":                {from: "default", fromConfig: ours, toConfig: ours, serves: true, asked: "canary", labels: map[string]string{"istio.io/rev": "canary", "istio-injection": "", "app.kubernetes.io/part-of": "meshtrial"}, pods: map[string]string{"istio.io/rev": ""}},
		"the first would watch no longer": {from: "default", fromConfig: injected, serves: true, asked: "canary", err: "istiod of revision default would not watch"},
		"its injector does not serve yet": {from: "default", asked: "canary", err: "no working sidecar injector of revision canary"},
		"to itself":                       {from: "canary", serves: true, asked: "canary", err: "which its pods start with"},
		"to none":                         {from: "default", serves: true, asked: "old", err: "no istiod of revision old"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := ofRevision(tt.from, tt.fromConfig, true)
			if tt.from != "canary" {
				objects = append(objects, ofRevision("canary", tt.toConfig, tt.serves)...)
			}
			kube := fakecluster.New(objects...)
			from, err := findRevision(t.Context(), kube, tt.from)
			must.OK(t, err)
			plane, err := (&Mesh{Revision: from}).Plane(t.Context(), kube, tt.asked)
			if tells(t, name, err, tt.err, ""); err != nil {
				return
			}
			if !maps.Equal(plane.Labels, tt.labels) || !maps.Equal(plane.PodLabels, tt.pods) {
				t.Errorf("%+v, %v", plane, err)
			}
			if want := map[string]string{"canary": "app=istiod,istio.io/rev=canary", "": "app=istiod,istio.io/rev=" + tt.from}[tt.asked]; plane.Selector != want || plane.Namespace != Namespace {
				t.Errorf("its pods are %s in %s", plane.Selector, plane.Namespace)
			}
		})
	}
	refuses(t, "an istiod whose pods nothing tells apart", must.Err((&Mesh{Revision: Revision{Name: defaultRevision}}).Plane(t.Context(), fakecluster.New(), "")), "no label istio.io/rev", "")
}

// Installed revisions are found by name and by tag.
func TestRevisions(t *testing.T) {
	kube := fakecluster.New(slices.Concat(ofRevision("canary", "", true), ofRevision(defaultRevision, "", true), []runtime.Object{tagOf("prod", "canary")})...)
	for name, want := range map[string]bool{"canary": true, "default": true, "prod": true, "old": false} {
		there, has, err := (&Mesh{}).Revisions(t.Context(), kube, name)
		if err != nil || has != want || !slices.Equal(there, []string{"canary", "default"}) {
			t.Errorf("%s: %v, %v, %v", name, there, has, err)
		}
	}
}

// Istiod's own list contains who is connected, and who has acknowledged.
func TestConnected(t *testing.T) {
	var asked *url.URL
	answer := []map[string]any{
		{"proxy": "bar-1.meshtrial-run", "cluster_sent": "a", "cluster_acked": "a", "listener_sent": "b", "listener_acked": "b"},
		{"proxy": "bar-2.meshtrial-run", "cluster_sent": "a", "cluster_acked": "a", "listener_sent": "b", "listener_acked": "old"},
		{"proxy": "bar-3.meshtrial-run"},
		{"proxy": "bar-4.other"},
		ztunnelState("zt-1", "a", "b"), ztunnelState("zt-2", "a", "old"), ztunnelState("zt-3", "a", ""), {"proxy": "zt-4.meshtrial-run", "proxy_type": "ztunnel"},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	at, err := url.Parse(server.URL)
	must.OK(t, err)
	client := &http.Client{Transport: towards{at.Host}}
	got, err := (&Mesh{}).Connected(t.Context(), client, "meshtrial-run")
	if want := []mesh.Connected{{Pod: "bar-1", Acknowledged: true}, {Pod: "bar-2"}, {Pod: "bar-3"},
		{Pod: "zt-1", Acknowledged: true}, {Pod: "zt-2"}, {Pod: "zt-3"}, {Pod: "zt-4"}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if asked.Path != "/debug/syncz" || asked.Query().Get("namespace") != "meshtrial-run" {
		t.Errorf("asked %v", asked)
	}
}

// ztunnelState is istiod's state of a ztunnel that has acknowledged these nonces; it was sent a and b.
func ztunnelState(pod, addresses, policies string) map[string]any {
	nonces := func(sent, acked string) map[string]any { return map[string]any{"sent": sent, "acked": acked} }
	return map[string]any{"proxy": pod + ".meshtrial-run", "proxy_type": "ztunnel", "resources": map[string]any{
		"type.googleapis.com/istio.workload.Address": nonces("a", addresses), "type.googleapis.com/istio.security.Authorization": nonces("b", policies)}}
}

// towards sends all requests to one address.
type towards struct{ host string }

func (d towards) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Host = d.host
	return http.DefaultTransport.RoundTrip(r)
}

// There is no wait if no run created an istiod. Istiods created by runs are awaited, and
// those of others are ignored.
func TestAwaitOthers(t *testing.T) {
	const label = "meshtrial.dev/run"
	await := func(ctx context.Context, objects ...runtime.Object) (waited bool, err error) {
		err = awaitOthers(ctx, fakecluster.New(objects...), label, func() { waited = true })
		return waited, err
	}
	theirs := ofRevision(defaultRevision, "", true)
	if waited, err := await(t.Context(), theirs...); waited || err != nil {
		t.Errorf("for those of others: %v, %v", waited, err)
	}
	busy, looks := fakecluster.New(theirs...), 0
	busy.PrependReactor("list", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
		looks++
		return looks == 1, nil, apierrors.NewServiceUnavailable("starting")
	})
	if err := awaitOthers(t.Context(), busy, label, func() { t.Error("it waits for those of others") }); err != nil || looks != 2 {
		t.Errorf("an API server that is busy for a moment: %v after %d looks", err, looks)
	}
	for i, kind := range map[int]string{0: "Deployment", 2: "injector"} {
		ours := ofRevision("canary", "", true)
		ours[i].(metav1.Object).GetLabels()[label] = "r1"
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		waited, err := await(ctx, append(ours, theirs...)...)
		cancel()
		if !waited || err == nil || !strings.HasSuffix(errs.Hint(err), "meshtrial cluster restore --run r1") {
			t.Errorf("for a %s of a run: %v, %v", kind, waited, err)
		}
	}
}

// The Leases of istiods that no longer exist are deleted once their pods have terminated.
// Those of others, and those that are not elections of a single revision, are kept.
func TestSweepElections(t *testing.T) {
	lease := func(name string) runtime.Object {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": map[string]any{"namespace": Namespace, "name": name}}}
	}
	pod := func(revision string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "istiod-" + revision + "-x", Labels: map[string]string{"app": "istiod", revisionLabel: revision}}}
	}
	synctest.Test(t, func(t *testing.T) {
		resource := schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
		leases := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{resource: "LeaseList"},
			lease("istio-gateway-deployment-default"), lease("istio-gateway-deployment-canary"), lease("istio-gateway-status-leader-canary"), lease("istio-gateway-deployment-stuck"), lease("istio-leader")).
			Resource(resource).Namespace(Namespace)
		kube := fakecluster.New(append(ofRevision(defaultRevision, "", true), pod(defaultRevision), pod("canary"), pod("stuck"))...)
		go func() {
			time.Sleep(endTime / 2)
			if all, err := leases.List(t.Context(), metav1.ListOptions{}); err != nil || len(all.Items) != 5 {
				t.Errorf("while an istiod ends: %v, %v", all, err)
			}
			if err := kube.CoreV1().Pods(Namespace).Delete(t.Context(), pod("canary").Name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		}()
		must.OK(t, sweepElections(t.Context(), kube, leases))
		all, err := leases.List(t.Context(), metav1.ListOptions{})
		must.OK(t, err)
		var left []string
		for _, o := range all.Items {
			left = append(left, o.GetName())
		}
		slices.Sort(left)
		if want := []string{"istio-gateway-deployment-default", "istio-gateway-deployment-stuck", "istio-leader"}; !slices.Equal(left, want) {
			t.Errorf("left %q, want %q", left, want)
		}
	})
}
