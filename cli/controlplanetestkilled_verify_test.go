//go:build verify

package cli_test

import (
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/labtest"
)

// TestControlPlaneTestKilled kills `meshtrial controlplane-test` while its objects exist. `meshtrial
// cluster restore` must delete them all.
func TestControlPlaneTestKilled(t *testing.T) {
	m, l := labtest.Shared(t)
	const namespace = "push-test-killed"
	labtest.Namespace(t, l, namespace)
	labtest.Kubectl(t, l, "", "create", "namespace", namespace)
	left := func() string {
		return labtest.Kubectl(t, l, "", "-n", namespace, "get", "configmaps,services,gateways.networking.istio.io,virtualservices.networking.istio.io", "-l", "meshtrial.dev/controlplane-test", "-o", "name")
	}
	cmd := m.Command(t, "controlplane-test", "--namespace", namespace, "--reps", "1000", "--delay", "0.2", "--wait", "20m")
	said, ended := labtest.Background(t, cmd)
	for strings.Count(left(), "virtualservice") < 2 {
		select {
		case <-ended:
			t.Fatalf("it ended:\n%s", said)
		case <-time.After(200 * time.Millisecond):
		}
	}
	_ = cmd.Process.Kill()
	<-ended
	m.Succeeds(t, "cluster", "restore", "--kubeconfig", l.Kubeconfig())
	eventually.Within(t, time.Minute, "all is gone", func() bool { return left() == "" })
}
