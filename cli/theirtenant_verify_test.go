//go:build verify

package cli_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/drive/load"
	loadcontrol "github.com/meshtrial/meshtrial/drive/load/control"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/record/rate"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// tenant is an application of others on the mesh: customers whose requests reach a service
// through an ingress gateway. All of them have proxies of revision canary.
type tenant struct {
	lab       *local.Lab
	customers *loadcontrol.Client
	run       string
	seen      load.Progress
	pods      string
}

// theirShop has a placeholder for the image.
const theirShop = `
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {mesh: shop}}
---
apiVersion: v1
kind: Service
metadata: {name: cart, namespace: shop}
spec: {selector: {app: cart}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: zipkin, namespace: shop}
spec: {selector: {app: cart}, ports: [{name: http, port: 9411, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: ingress, namespace: shop}
spec: {selector: {app: ingress}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: ingress, namespace: shop}
spec:
  selector: {matchLabels: {app: ingress}}
  template:
    metadata:
      labels: {app: ingress, sidecar.istio.io/inject: "true", istio.io/rev: canary}
      annotations: {inject.istio.io/templates: gateway}
    spec: {containers: [{name: istio-proxy, image: auto, imagePullPolicy: IfNotPresent}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: cart, namespace: shop}
spec:
  selector: {matchLabels: {app: cart}}
  template:
    metadata: {labels: {app: cart, sidecar.istio.io/inject: "true", istio.io/rev: canary}}
    spec: {containers: [{name: cart, image: IMAGE, imagePullPolicy: IfNotPresent, args: [worker, --control, "127.0.0.1:15990"]}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: customer, namespace: shop}
spec:
  selector: {matchLabels: {app: customer}}
  template:
    metadata: {labels: {app: customer, sidecar.istio.io/inject: "true", istio.io/rev: canary}}
    spec: {containers: [{name: customer, image: IMAGE, imagePullPolicy: IfNotPresent, args: [load, --control, "127.0.0.1:15980"]}]}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: ingress, namespace: shop}
spec: {selector: {app: ingress}, servers: [{port: {number: 8080, name: http, protocol: HTTP}, hosts: ["*"]}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: cart, namespace: shop}
spec: {hosts: ["*"], gateways: [ingress], http: [{route: [{destination: {host: cart, port: {number: 80}}}]}]}
`

// newTenant deploys the application and starts its customers.
func newTenant(t *testing.T, l *local.Lab) *tenant {
	t.Helper()
	labtest.Kubectl(t, l, strings.ReplaceAll(theirShop, "IMAGE", l.Images().Meshtrial), "apply", "-f", "-")
	labtest.Kubectl(t, l, "", "-n", "shop", "wait", "deployment", "--all", "--for=condition=Available", "--timeout=180s")
	pod := strings.TrimSpace(labtest.Kubectl(t, l, "", "-n", "shop", "get", "pods", "-l", "app=customer", "-o", "jsonpath={.items[0].metadata.name}"))
	dialer := lab.NewDialer(l.RESTConfig())
	t.Cleanup(func() { _ = dialer.Close() })
	n := &tenant{lab: l, customers: loadcontrol.NewClient(lab.InPod, dialer.Client("shop", pod, 15980))}
	n.await(t)
	spec := load.DefaultSpec("http://ingress.shop.svc.cluster.local/")
	spec.Rate, spec.Connections, spec.DurationS = rate.Rate(50), 4, 3600
	started, err := n.customers.Start(t.Context(), spec)
	must.OK(t, err)
	n.run = started.Run
	return n
}

// await waits until requests succeed.
func (n *tenant) await(t *testing.T) {
	t.Helper()
	spec := load.DefaultSpec("http://ingress.shop.svc.cluster.local/")
	spec.Rate, spec.Connections, spec.DurationS = rate.Rate(20), 1, 1
	eventually.Within(t, time.Minute, "requests of the tenant's come through", func() bool {
		started, err := n.customers.Start(t.Context(), spec)
		if err != nil {
			return false
		}
		time.Sleep(1500 * time.Millisecond) // the schedule is one second; allow for the answers
		p, err := n.customers.Progress(t.Context(), started.Run)
		return err == nil && p.Failed == 0 && p.Completed > 0
	})
}

// begin records the state of the tenant. held reports what a run changed.
func (n *tenant) begin(t *testing.T) {
	t.Helper()
	n.seen, n.pods = n.progress(t), n.podsNow(t)
}

func (n *tenant) held(t *testing.T) {
	t.Helper()
	now := n.progress(t)
	t.Logf("the tenant's requests meanwhile: %d, of which %d failed", now.Sent-n.seen.Sent, now.Failed-n.seen.Failed)
	if now.Failed > n.seen.Failed || now.Completed <= n.seen.Completed {
		t.Errorf("requests of the tenant's meanwhile: %+v, before: %+v", now, n.seen)
	}
	if pods := n.podsNow(t); pods != n.pods {
		t.Errorf("pods of the tenant's are\n%s\nand were\n%s", pods, n.pods)
	}
}

func (n *tenant) progress(t *testing.T) load.Progress {
	t.Helper()
	p, err := n.customers.Progress(t.Context(), n.run)
	must.OK(t, err)
	return p
}

func (n *tenant) podsNow(t *testing.T) string {
	t.Helper()
	return labtest.Kubectl(t, n.lab, "", "-n", "shop", "get", "pods", "--sort-by=.metadata.name", "-o",
		`jsonpath={range .items[*]}{.metadata.name} {.metadata.uid}{range .status.containerStatuses[*]} {.name} {.ready} {.restartCount}{end}{"\n"}{end}`)
}

// secondRevision installs revision stable as a copy of canary: each object of canary is created
// again under the new name, with one running istiod, and with a tag prod for canary.
func secondRevision(t *testing.T, l *local.Lab) {
	t.Helper()
	const kinds = "serviceaccount,configmap,service,deployment,role,rolebinding,clusterrole,clusterrolebinding,horizontalpodautoscaler,poddisruptionbudget,validatingwebhookconfiguration,mutatingwebhookconfiguration"
	var made []unstructured.Unstructured
	for _, o := range listed(t, labtest.Kubectl(t, l, "", "get", kinds, "-A", "-o", "json")) {
		if !strings.Contains(o.GetName(), "canary") || o.GetNamespace() != "" && o.GetNamespace() != "istio-system" {
			continue
		}
		text, err := json.Marshal(o.Object)
		must.OK(t, err)
		made = append(made, copyOf(t, strings.ReplaceAll(string(text), "canary", "stable")))
		if o.GetKind() == "MutatingWebhookConfiguration" {
			made = append(made, tagOf(t, o, "prod"))
		}
	}
	for i := range made {
		switch o := &made[i]; o.GetKind() {
		case "Deployment":
			set(t, o, int64(1), "spec", "replicas")
		case "HorizontalPodAutoscaler":
			set(t, o, int64(1), "spec", "minReplicas")
		case "Service":
			unstructured.RemoveNestedField(o.Object, "spec", "clusterIP")
			unstructured.RemoveNestedField(o.Object, "spec", "clusterIPs")
		}
		text, err := json.Marshal(made[i].Object)
		must.OK(t, err)
		labtest.Kubectl(t, l, string(text), "apply", "-f", "-")
	}
	if len(made) < 10 {
		t.Fatalf("revision canary is of %d objects", len(made))
	}
	labtest.Kubectl(t, l, "", "-n", "istio-system", "rollout", "status", "deployment/istiod-stable", "--timeout=120s")
}

// copyOf reads an object without the fields that the API server added.
func copyOf(t *testing.T, text string) unstructured.Unstructured {
	t.Helper()
	var o unstructured.Unstructured
	must.OK(t, json.Unmarshal([]byte(text), &o.Object))
	for _, at := range [][]string{{"status"}, {"metadata", "uid"}, {"metadata", "resourceVersion"}, {"metadata", "creationTimestamp"}, {"metadata", "managedFields"}, {"metadata", "generation"}, {"metadata", "ownerReferences"}} {
		unstructured.RemoveNestedField(o.Object, at...)
	}
	return o
}

// tagOf returns the injector of a revision tag, as `istioctl tag set` creates it: the revision's
// injector, for pods and namespaces with another label. See istio.io/docs, Canary Upgrades,
// stable revision labels.
func tagOf(t *testing.T, of unstructured.Unstructured, tag string) unstructured.Unstructured {
	t.Helper()
	text, err := json.Marshal(of.Object)
	must.OK(t, err)
	o := copyOf(t, strings.ReplaceAll(string(text), `"values":["canary"]`, fmt.Sprintf(`"values":[%q]`, tag)))
	o.SetName("istio-revision-tag-" + tag)
	labels := o.GetLabels()
	labels["istio.io/tag"] = tag
	o.SetLabels(labels)
	return o
}

func set(t *testing.T, o *unstructured.Unstructured, value any, at ...string) {
	t.Helper()
	must.OK(t, unstructured.SetNestedField(o.Object, value, at...))
}

// scaled makes the autoscaler add an istiod again and again until ended is closed, and then
// removes them.
func scaled(t *testing.T, l *local.Lab, ended <-chan struct{}) {
	t.Helper()
	bounds := func(least, most int) {
		labtest.Kubectl(t, l, "", "-n", "istio-system", "patch", "hpa", "istiod-canary", "--type=merge", "-p", fmt.Sprintf(`{"spec":{"minReplicas":%d,"maxReplicas":%d}}`, least, most))
	}
	for n, over := 3, false; !over; n = min(n+1, 7) {
		bounds(n, n)
		select {
		case <-ended:
			over = true
		case <-time.After(20 * time.Second): // longer than an autoscaler sleeps
		}
	}
	bounds(2, 3)
	labtest.Kubectl(t, l, "", "-n", "istio-system", "scale", "deployment", "istiod-canary", "--replicas=2")
}
