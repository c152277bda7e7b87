//go:build verify

package cli_test

import (
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/labtest"
)

// TestProfileKilled kills `meshtrial profile POD` while its privileged role is at work on the
// node. No later command cleans up: the role ends, and so does the namespace.
func TestProfileKilled(t *testing.T) {
	m, l := labtest.Shared(t)
	pod := strings.TrimSpace(labtest.Kubectl(t, l, "", "-n", "istio-system", "get", "pods", "-l", "app=istiod", "-o", "jsonpath={.items[0].metadata.name}"))
	cmd := m.Command(t, "profile", pod, "-n", "istio-system", "--length", "10m", "--wait", "20m")
	said, ended := labtest.Background(t, cmd)
	remains := func() string {
		out := ""
		for _, kind := range []string{"namespaces", "pods", "daemonsets", "clusterroles", "clusterrolebindings"} {
			for line := range strings.Lines(labtest.Kubectl(t, l, "", "get", kind, "-A", "-l", "meshtrial.dev/run", "-o", "custom-columns=K:.kind,N:.metadata.name,S:.status.phase", "--no-headers")) {
				if strings.Contains(line, "profile") || strings.Contains(line, "meshtrial-keeper") {
					out += line
				}
			}
		}
		return out
	}
	running := func(of string) bool {
		for line := range strings.Lines(remains()) {
			if strings.Contains(line, of) && strings.Contains(line, "Running") {
				return true
			}
		}
		return false
	}
	for !running("profile-") || !running("meshtrial-keeper") {
		select {
		case <-ended:
			t.Fatalf("it ended:\n%s", said)
		case <-time.After(500 * time.Millisecond):
		}
	}
	_ = cmd.Process.Kill()
	<-ended
	killed := time.Now()
	eventually.Within(t, 5*time.Minute, "all is gone, though nobody came", func() bool { return remains() == "" })
	t.Logf("%.1f s after the program was killed all is gone", time.Since(killed).Seconds())
}
