//go:build integration

package local_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/testing/leakcheck"
	"github.com/meshtrial/meshtrial/testing/must"
)

// TestLab checks what a user expects of a lab, on a single lab.
func TestLab(t *testing.T) {
	b := newBench(t)
	l := b.up(t)
	status, err := local.GetStatus("")
	must.OK(t, err)
	client, err := kubernetes.NewForConfig(l.RESTConfig())
	must.OK(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 12*time.Minute)
	defer cancel()

	t.Run("a second lab", func(t *testing.T) {
		code, out := b.Run(t, "lab", "up")
		if code != errs.CodeUsage || !strings.Contains(out, status.ID) {
			t.Errorf("exit code %d:\n%s", code, out)
		}
	})
	t.Run("files are the owner's alone", func(t *testing.T) {
		for _, path := range []string{filepath.Join(b.State(), status.ID), filepath.Join(b.State(), "kubeconfig")} {
			info, err := os.Stat(path)
			must.OK(t, err)
			if info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has mode %v", path, info.Mode())
			}
		}
		data, err := os.ReadFile(l.Kubeconfig())
		if err != nil || bytes.Contains(data, []byte("insecure")) {
			t.Errorf("kubeconfig: %v\n%s", err, data)
		}
	})
	t.Run("the host is as it was", func(t *testing.T) {
		now, err := leakcheck.Take(b.leaks(status.ID))
		must.OK(t, err)
		for _, found := range now.New(b.before) {
			kind, _, _ := strings.Cut(found, " ")
			switch kind {
			case "process", "namespace", "cgroup": // the lab's own
			case "interface", "route":
				if !strings.HasSuffix(found, "mtrial-"+status.ID) {
					t.Error(found)
				}
			default: // a listener, a mount, a rule, a file
				t.Error(found)
			}
		}
	})
	t.Run("strangers are refused", func(t *testing.T) {
		config := l.RESTConfig()
		config.CertData, config.KeyData = nil, nil
		stranger, err := kubernetes.NewForConfig(config)
		must.OK(t, err)
		if _, err := stranger.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); err == nil {
			t.Error("a client without a certificate could list nodes")
		}
	})
	t.Run("names", func(t *testing.T) { names(t, ctx) })
	t.Run("workloads", func(t *testing.T) { workloads(t, ctx, l, client) })
	t.Run("sidecars", func(t *testing.T) { sidecars(t, ctx, l, client) })
	t.Run("istioctl", func(t *testing.T) { proxyStatus(t, ctx, l) })
	t.Run("simulated node", func(t *testing.T) { simulatedNode(t) })
	t.Run("as a stranger's cluster", func(t *testing.T) { strangersCluster(t, ctx, l) })
	t.Run("parts die", func(t *testing.T) { killParts(t, l, chance(t)) })
	t.Run("the node dies", func(t *testing.T) { killNode(t) })
	b.down(t, status.ID)
}
