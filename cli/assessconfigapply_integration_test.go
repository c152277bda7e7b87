//go:build integration

package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// mineBefore is a Sidecar that somebody wrote, with more than egress hosts.
const mineBefore = `
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: mine, namespace: scoped, labels: {team: shop}}
spec:
  ingress: [{port: {number: 8080, protocol: HTTP, name: http}, defaultEndpoint: "127.0.0.1:8080"}]
  egress: [{hosts: ["*/*"]}]
`

// TestApplyGeneratedSidecars: what --apply did stays when another command comes, is
// named by it, and is taken back on request to the last field.
func TestApplyGeneratedSidecars(t *testing.T) {
	s := newScopedShop(t)
	s.kubectl(mineBefore, "apply", "-f", "-")
	spec := func(namespace, name string) string {
		return strings.TrimSpace(labtest.Kubectl(t, s.lab, "", "-n", namespace, "get", "sidecars.networking.istio.io", name, "--ignore-not-found", "-o", "jsonpath={.spec}{.metadata.labels}"))
	}
	before := spec("scoped", "mine")
	log := filepath.Join(t.TempDir(), "shop.log")
	line := fmt.Sprintf(`{"upstream_cluster":"outbound|80||outside.example.com","response_code":200,"start_time":%q}`, time.Now().UTC().Format(time.RFC3339Nano))
	must.OK(t, os.WriteFile(log, []byte(line+"\n"), 0o644))
	out, _ := succeeds(t, "assess", "config", "-n", "scoped", "--access-log", "scoped/shop="+log, "--watched", "0", "--generate", filepath.Join(t.TempDir(), "sidecars"), "--apply", "--json")
	var r applied
	must.OK(t, json.Unmarshal([]byte(out), &r))
	if r.Applied == nil || len(r.Applied.Objects) != 1 || r.Applied.Objects[0] != "Sidecar scoped/mine" {
		t.Fatalf("%+v", r.Applied)
	}
	after := spec("scoped", "mine")
	if !strings.Contains(after, "outside.example.com") || strings.Contains(after, "*/*") || !strings.Contains(after, `"defaultEndpoint":"127.0.0.1:8080"`) || !strings.Contains(after, `"team":"shop"`) {
		t.Errorf("%s, before %s", after, before)
	}
	// Once more is nothing more.
	if out, _ := succeeds(t, "assess", "config", "-n", "scoped", "--access-log", "scoped/shop="+log, "--watched", "0", "--generate", filepath.Join(t.TempDir(), "again"), "--apply"); !strings.Contains(out, "Nothing to apply") {
		t.Error(out)
	}
	kubeconfig := s.lab.Kubeconfig()
	if _, said := succeeds(t, "cluster", "restore", "--kubeconfig", kubeconfig); !strings.Contains(said, "Sidecar scoped/mine: kept on purpose by meshtrial assess config --apply") {
		t.Error(said)
	}
	if now := spec("scoped", "mine"); now != after {
		t.Errorf("it was reverted without a request: %s", now)
	}
	if out, _ := succeeds(t, "cluster", "status", "--kubeconfig", kubeconfig); !strings.Contains(out, "kept on purpose") || !strings.Contains(out, r.Applied.Run) || strings.Contains(out, "not reverted") {
		t.Error(out)
	}
	if out, _ := succeeds(t, "cluster", "restore", "--kubeconfig", kubeconfig, "--run", r.Applied.Run); !strings.Contains(out, "Sidecar scoped/mine: as it was (spec.egress)") {
		t.Error(out)
	}
	if now := spec("scoped", "mine"); now != before {
		t.Errorf("%s, before %s", now, before)
	}
	if out, _ := succeeds(t, "cluster", "status", "--kubeconfig", kubeconfig); strings.Contains(out, r.Applied.Run) {
		t.Error(out)
	}
}
