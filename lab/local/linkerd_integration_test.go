//go:build integration

package local_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// Both meshes start in one lab, Linkerd's pods use mutual TLS while other pods
// do not, and nothing is left when the lab ends.
func TestLinkerd(t *testing.T) {
	dir := labtest.Folder(t, "MESHTRIAL_LINKERD")
	b := newBench(t)
	l := b.up(t, "--linkerd", dir)
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Minute)
	defer cancel()
	if _, out := b.Run(t, "lab", "status"); !strings.Contains(out, "linkerd ") || !strings.Contains(out, l.Images().Meshes["linkerd"][lab.Status]) {
		t.Errorf("lab status says nothing of Linkerd:\n%s", out)
	}
	client, err := kubernetes.NewForConfig(l.RESTConfig())
	must.OK(t, err)
	for namespace, want := range map[string]int{"istio-system": 1, "linkerd": 3} {
		deployments, err := client.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(deployments.Items) != want {
			t.Fatalf("%d Deployments in %s, %v, want %d", len(deployments.Items), namespace, err, want)
		}
		for _, d := range deployments.Items {
			if d.Status.AvailableReplicas != 1 {
				t.Errorf("%s/%s is not available", namespace, d.Name)
			}
		}
	}
	image := l.Images().Meshtrial
	kubectl(t, fmt.Sprintf(`
apiVersion: v1
kind: Namespace
metadata: {name: pair}
---
apiVersion: v1
kind: Service
metadata: {name: server, namespace: pair}
spec: {selector: {app: server}, ports: [{name: http, port: 8080}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: server, namespace: pair}
spec:
  selector: {matchLabels: {app: server}}
  template:
    metadata: {labels: {app: server}, annotations: {linkerd.io/inject: enabled}}
    spec:
      containers:
      - {name: worker, image: %[1]s, args: [worker, --http, ":8080"]}
`, image), "apply", "-f", "-")
	kubectl(t, "", "rollout", "status", "-n", "pair", "deploy/server", "--timeout=180s")
	kubectl(t, fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: meshed, namespace: pair}
spec:
  backoffLimit: 0
  template:
    metadata: {annotations: {linkerd.io/inject: enabled}}
    spec:
      restartPolicy: Never
      containers:
      - {name: load, image: %[1]s, args: [load, "http://server.pair.svc.cluster.local:8080/", --rate, "200", --connections, "4", --duration, 3s, --arrival, uniform, --json]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: plain, namespace: pair}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: load, image: %[1]s, args: [load, "http://server.pair.svc.cluster.local:8080/", --rate, "100", --connections, "2", --duration, 1s, --arrival, uniform, --json]}
`, image), "apply", "-f", "-")
	for _, job := range []string{"meshed", "plain"} {
		out, err := tryKubectl("", "wait", "-n", "pair", "--for=condition=Complete", "job/"+job, "--timeout=180s")
		if err != nil {
			logs, _ := tryKubectl("", "logs", "-n", "pair", "job/"+job, "--all-containers")
			t.Fatalf("job %s: %v\n%s\n%s", job, err, out, logs)
		}
	}
	pods, err := client.CoreV1().Pods("pair").List(ctx, metav1.ListOptions{LabelSelector: "app=server"})
	if err != nil || len(pods.Items) != 1 {
		t.Fatalf("pods of the server: %v, %v", pods, err)
	}
	pod := pods.Items[0]
	metrics := kubectl(t, "", "get", "--raw", "/api/v1/namespaces/pair/pods/"+pod.Name+":4191/proxy/metrics")
	count := func(labels ...string) (n float64) {
		for _, line := range regexp.MustCompile(`(?m)^request_total\{direction="inbound".*$`).FindAllString(metrics, -1) {
			has := true
			for _, l := range labels {
				has = has && strings.Contains(line, l)
			}
			if has {
				var v float64
				must.OK(t, must.Err(fmt.Sscan(line[strings.LastIndex(line, " ")+1:], &v)))
				n += v
			}
		}
		return n
	}
	if n := count(`target_port="8080"`, `tls="true"`, `client_id="default.pair.serviceaccount.identity.linkerd.cluster.local"`); n != 600 {
		t.Errorf("%v requests over mutual TLS, want 600", n)
	}
	if n := count(`target_port="8080"`, `tls="no_identity"`); n != 100 {
		t.Errorf("%v requests without TLS, want 100", n)
	}
	var failed error
	for _, c := range pod.Status.InitContainerStatuses {
		if c.RestartCount > 0 {
			failed = errors.Join(failed, fmt.Errorf("%s started %d times", c.Name, c.RestartCount+1))
		}
	}
	if failed != nil {
		t.Error(failed)
	}
	status, err := local.GetStatus("")
	must.OK(t, err)
	b.down(t, status.ID)
}
