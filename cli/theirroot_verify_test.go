//go:build verify

package cli_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/testing/labtest"
)

// theirRoot is the mesh-wide policy of others: calls are denied unless allowed, mutual TLS is
// required, and sidecars report to their own destinations.
const theirRoot = `
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: nobody, namespace: istio-system}
spec: {}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: istio-system}
spec: {mtls: {mode: STRICT}}
---
apiVersion: telemetry.istio.io/v1
kind: Telemetry
metadata: {name: theirs, namespace: istio-system}
spec: {accessLogging: [{providers: [{name: envoy}]}]}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: default, namespace: istio-system}
spec: {egress: [{hosts: [./*, istio-system/*]}]}
`

// theirLeave is what the error asks them to add.
const theirLeave = `
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: meshtrial, namespace: istio-system}
spec: {selector: {matchLabels: {app.kubernetes.io/part-of: meshtrial}}, rules: [{}]}
`

// TestTheirRoot runs a study on a mesh that denies all calls. It is rejected before anything is
// created. After adding what the error asks for, it runs, even with mesh-wide mutual TLS required
// and with clients without sidecars. The report names what affects its figures.
func TestTheirRoot(t *testing.T) {
	m := labtest.New(t)
	l := m.Up(t)
	labtest.Kubectl(t, l, theirRoot, "apply", "-f", "-")
	before := labtest.Kubectl(t, l, "", "get", "namespaces", "-o", "name")
	run := func(out string) (int, string) {
		text := strings.Replace(dataPlaneOfAGuest, "sidecars: [none, both]", "sidecars: [none, server, both]", 1)
		return m.Run(t, "run", labtest.Study(t, text), "--yes", "--lab", "cluster", "--kubeconfig", l.Kubeconfig(), "--image", l.Images().Meshtrial, "--out", out)
	}
	code, said := run(filepath.Join(t.TempDir(), "run"))
	if code == errs.CodeOK || !strings.Contains(said, "AuthorizationPolicy istio-system/nobody") || !strings.Contains(said, "rules: [{}]") {
		t.Fatalf("a mesh that allows nothing: exit code %d\n%s", code, said)
	}
	// The Lease is deleted with its namespace, which takes a busy cluster a while.
	labtest.Kubectl(t, l, "", "wait", "--for=delete", "namespace/"+journal.Namespace, "--timeout=60s")
	if after := labtest.Kubectl(t, l, "", "get", "namespaces", "-o", "name"); after != before {
		t.Errorf("namespaces before the refusal\n%s, after it\n%s", before, after)
	}

	labtest.Kubectl(t, l, theirLeave, "apply", "-f", "-")
	out := filepath.Join(t.TempDir(), "run")
	if code, said = run(out); code != errs.CodeOK && code != errs.CodeInvalid {
		t.Fatalf("exit code %d\n%s", code, said)
	}
	const named = "AuthorizationPolicy istio-system/meshtrial, AuthorizationPolicy istio-system/nobody, Sidecar istio-system/default, Telemetry istio-system/theirs"
	contents, err := store.Read(out)
	if err != nil || !strings.Contains(said, named) || !slices.ContainsFunc(contents.Header.Machine.Remarks, func(r string) bool { return strings.Contains(r, named) }) {
		t.Errorf("%v; the header has %q\n%s", err, contents.Header.Machine.Remarks, said)
	}
	if len(contents.Trials) == 0 {
		t.Fatal("no trials")
	}
	for _, trial := range contents.Trials {
		for _, c := range trial.Validity.Checks {
			if !c.OK && !slices.Contains(busyChecks, c.Name) && !labtest.OfTheMachine(trial, c) {
				t.Errorf("trial %s: %s: %s", trial.ID, c.Name, c.Detail)
			}
		}
	}
}
