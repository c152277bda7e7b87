//go:build integration

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/observe/signals"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

const signalsManifests = `
apiVersion: v1
kind: Namespace
metadata: {name: signalled, labels: {istio-injection: enabled}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop, namespace: signalled}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      containers: [{name: worker, image: "docker.io/meshtrial/meshtrial:lab", imagePullPolicy: IfNotPresent, args: [worker], resources: {requests: {cpu: 10m}}}]
`

// notHere maps the metrics of the table that the lab lacks to the reason.
var notHere = map[string]string{
	"pilot_total_xds_rejects":                "appears with the first rejection",
	"pilot_xds_cds_reject":                   "appears with the first rejection",
	"pilot_xds_eds_reject":                   "appears with the first rejection",
	"pilot_xds_lds_reject":                   "appears with the first rejection",
	"pilot_xds_rds_reject":                   "appears with the first rejection",
	"pilot_xds_write_timeout":                "appears with the first one",
	"pilot_total_xds_internal_errors":        "appears with the first one",
	"pilot_xds_push_context_errors":          "of older versions",
	"container_network_transmit_bytes_total": "the lab's kubelet has no statistics of its pods' network",
	signals.MetricConvergence + "_bucket":    "measured by simulated sidecars",
	signals.MetricConvergence + "_sum":       "measured by simulated sidecars",
	signals.MetricConvergence + "_count":     "measured by simulated sidecars",
}

// TestTrafficOfALab watches a real istiod with real sidecars while Services and routes come and go.
func TestTrafficOfALab(t *testing.T) {
	l := labtest.Start(t)
	labtest.Namespace(t, l, "signalled")
	kubectl := func(input string, args ...string) {
		t.Helper()
		labtest.Kubectl(t, l, input, args...)
	}
	kubectl(signalsManifests, "apply", "-f", "-")
	kubectl("", "-n", "signalled", "rollout", "status", "deployment/shop", "--timeout=240s")

	var out, said bytes.Buffer
	done := make(chan error, 1)
	go func() {
		done <- Run(t.Context(), []string{"assess", "traffic", "--duration", "1m", "--interval", "1s", "--format", "json"}, &Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &said})
	}()
	for i := 0; len(done) == 0 && i < 100; i++ {
		kubectl(fmt.Sprintf(changedManifests, i%5), "apply", "-f", "-")
		time.Sleep(2 * time.Second)
	}
	// On a busy machine istiod may be slow enough to raise an alert: exit code 3.
	if err := <-done; err != nil && errs.Code(err) != errs.CodeAssertion {
		t.Fatalf("%v\n%s", err, said.String())
	}
	var a assess.Assessment
	must.OK(t, json.Unmarshal(out.Bytes(), &a))
	if a.Traffic == nil || a.Traffic.Read < 2 || a.Traffic.Read != a.Traffic.Sidecars || a.Signals == nil || a.Limits != nil || a.Configuration != nil {
		t.Fatalf("traffic %+v, signals %v", a.Traffic, a.Signals != nil)
	}
	r := *a.Signals
	for _, key := range []string{"debounce_p99", "push_context_p99", "queue_p99", "push_p99", "convergence_istiod_p99", "convergence_istiod_p999",
		"cpu_container", "cpu_process", "inbound_updates", "push_triggers", "services", "xds_pushes", "xds_proxies", "config_bytes"} {
		if v, _ := r.Find(key); v.Status != signals.StatusOK || !(*v.Value > 0) {
			t.Errorf("%s: %+v", key, v)
		}
	}
	for _, name := range r.Missing {
		if notHere[name] == "" {
			t.Errorf("this istiod has no %s", name)
		}
	}
	if len(r.Alerts) != 2 || r.Alerts[0].State == signals.StateUnknown {
		t.Errorf("alerts %v", r.Alerts)
	}
}

// changedManifests are a Service and a route, one of several.
const changedManifests = `
apiVersion: v1
kind: Service
metadata: {name: changed-%[1]d, namespace: signalled}
spec: {selector: {app: shop}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: changed-%[1]d, namespace: signalled}
spec: {hosts: [changed-%[1]d], http: [{route: [{destination: {host: changed-%[1]d}}]}]}
`
