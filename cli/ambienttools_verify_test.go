//go:build verify

package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/leakcheck"
	"github.com/meshtrial/meshtrial/testing/must"
)

// toolOf returns a program of a component, and builds the component if needed.
func toolOf(t *testing.T, component, name string) components.Program {
	t.Helper()
	builder, err := components.New(components.Options{})
	must.OK(t, err)
	set, err := builder.Ensure(t.Context(), component)
	must.OK(t, err)
	program, ok := set.Program(name)
	if !ok {
		t.Fatalf("component %s has no program %s", component, name)
	}
	return program
}

// withRules also looks for packet filter rules, which the node agent creates.
func withRules(t *testing.T) leakcheck.Options {
	t.Helper()
	nft := toolOf(t, "nftables", "nft")
	return leakcheck.Options{Rules: []string{nft.Path, "--stateless", "list", "ruleset"}, Env: nft.Env}
}

// inZtunnel waits until ztunnel lists the pod in the mesh as reachable by HBONE. It queries
// ztunnel as Istio's users do.
func inZtunnel(t *testing.T, l *local.Lab) {
	t.Helper()
	istioctl := toolOf(t, "istioctl", "istioctl")
	eventually.Succeeds(t, time.Minute, "ztunnel knows the pod in the mesh", func() error {
		cmd := exec.CommandContext(t.Context(), istioctl.Path, "--kubeconfig", l.Kubeconfig(), "ztunnel-config", "workloads")
		cmd.Env = append(os.Environ(), istioctl.Env...)
		out, err := cmd.CombinedOutput()
		for line := range strings.Lines(string(out)) {
			// NAMESPACE, POD NAME, ADDRESS, NODE, WAYPOINT, PROTOCOL
			if f := strings.Fields(line); err == nil && len(f) == 6 && f[0] == "captured" && f[1] == "captured" && f[5] == "HBONE" {
				return nil
			}
		}
		return fmt.Errorf("istioctl ztunnel-config workloads: %v\n%s", err, out)
	})
}
