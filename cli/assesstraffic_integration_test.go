//go:build integration

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/app"
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

// TestSignalsOfALab runs the published test against a real istiod with real sidecars while its
// golden signals are watched and recorded.
func TestSignalsOfALab(t *testing.T) {
	l := labtest.Start(t)
	labtest.Namespace(t, l, "signalled")
	kubectl := func(input string, args ...string) string {
		t.Helper()
		return labtest.Kubectl(t, l, input, args...)
	}
	run := func(ctx context.Context, args ...string) (string, error) {
		var out, said bytes.Buffer
		err := Run(ctx, args, &Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &said})
		return out.String(), err
	}
	nothingLeft := func() {
		t.Helper()
		if left := kubectl("", "-n", "signalled", "get", "service,gateways.networking.istio.io,virtualservices.networking.istio.io", "-l", app.PushTestLabel, "-o", "name"); left != "" {
			t.Errorf("left behind: %s", left)
		}
	}
	kubectl(signalsManifests, "apply", "-f", "-")
	kubectl("", "-n", "signalled", "rollout", "status", "deployment/shop", "--timeout=240s")

	// The watch lasts from before the test until everything that the test shows has been read.
	var seen lockedBuffer
	watching, enough := context.WithCancel(t.Context())
	defer enough()
	done := make(chan error, 1)
	kept := filepath.Join(t.TempDir(), "kept")
	go func() {
		done <- Run(watching, []string{"assess", "traffic", "--json", "--record", kept}, &Env{Stdin: strings.NewReader(""), Stdout: &seen, Stderr: io.Discard})
	}()
	for end := time.Now().Add(2 * time.Minute); len(seen.lines()) == 0; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) || len(done) > 0 {
			enough()
			t.Fatalf("nothing is watched: %v", <-done)
		}
	}
	out, err := run(t.Context(), "controlplane-test", "--reps", "4", "--delay", "2", "--settle", "5s", "--namespace", "signalled", "--app", "shop", "--json")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	nothingLeft()
	var test app.PushTestReport
	must.OK(t, json.Unmarshal([]byte(out), &test))
	// Each change pushes at least clusters and endpoints to both sidecars, and debounce waits at
	// least 100 ms.
	if !test.Valid || test.Proxies != 2 || test.Pushes < 4*2*2 || test.Created != 12 || test.Convergence.P99S == nil || *test.Convergence.P99S <= 0 ||
		test.Debounce.Count < 4 || *test.Debounce.MeanS < 0.1 || len(test.LeftOut) < 4 || len(test.Missing) > 0 {
		t.Errorf("%s", out)
	}

	var lines []string
	var r signals.Reading // the last one
	// By the end each has been read, though not all at once: the kubelet reports containers only
	// now and then, and by that time the pushes may be outside the window.
	lacks := map[string]string{}
	for _, key := range []string{"debounce_p99", "push_context_p99", "queue_p99", "push_p99", "convergence_istiod_p99", "convergence_istiod_p999",
		"cpu_container", "cpu_process", "inbound_updates", "push_triggers", "services", "xds_pushes", "xds_proxies", "config_bytes"} {
		lacks[key] = "never read"
	}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(500 * time.Millisecond) {
		known := len(lines)
		lines = seen.lines()
		for _, line := range lines[known:] {
			r = signals.Reading{}
			must.OK(t, json.Unmarshal([]byte(line), &r))
			for key := range lacks {
				v, _ := r.Find(key)
				lacks[key] = fmt.Sprintf("%+v", v)
				if v.Status == signals.StatusOK && *v.Value > 0 {
					delete(lacks, key)
				}
			}
		}
		if len(lacks) == 0 && len(lines) >= 8 || time.Now().After(end) {
			break
		}
	}
	enough()
	// On a busy machine istiod may be slow enough to raise an alert: exit code 3.
	alerted := func(err error) bool { return errs.Code(err) == errs.CodeAssertion }
	if err := <-done; err != nil && !alerted(err) {
		t.Fatalf("%v\n%s", err, lines)
	}
	for _, name := range r.Missing {
		if notHere[name] == "" {
			t.Errorf("this istiod has no %s", name)
		}
	}
	for key, text := range lacks {
		t.Errorf("%s: %s", key, text)
	}
	if len(lines) < 8 || len(r.Alerts) != 2 || r.Alerts[0].State == signals.StateUnknown {
		t.Errorf("%d readings, alerts %v", len(lines), r.Alerts)
	}
	out, err = run(t.Context(), "assess", "traffic", "--run", kept, "--json")
	var again signals.Reading
	if err != nil && !alerted(err) || json.Unmarshal([]byte(out), &again) != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if v, _ := again.Find("xds_pushes"); v.Status != signals.StatusOK || *v.Value*again.WindowS < test.Pushes*0.9 {
		t.Errorf("the test made %v pushes, recorded were %+v over %v s", test.Pushes, v, again.WindowS)
	}

	// Interrupt it midway.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	interrupted := make(chan error, 1)
	go func() {
		_, err := run(ctx, "controlplane-test", "--reps", "1000", "--delay", "0.5", "--namespace", "signalled")
		interrupted <- err
	}()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end) && len(interrupted) == 0; time.Sleep(200 * time.Millisecond) {
		if kubectl("", "-n", "signalled", "get", "service", "-l", app.PushTestLabel, "-o", "name") != "" {
			break
		}
	}
	cancel()
	if err := <-interrupted; errs.Code(err) != errs.CodeInterrupted {
		t.Errorf("interrupted: %v", err)
	}
	nothingLeft()
	if _, err := run(t.Context(), "controlplane-test", "--namespace", "nowhere"); errs.Code(err) != errs.CodeUsage || !slices.Contains(strings.Fields(errs.Hint(err)), "namespace") {
		t.Errorf("no such namespace: %v", err)
	}
}
