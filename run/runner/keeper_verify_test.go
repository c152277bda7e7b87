//go:build verify

package runner_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/must"
)

// remains lists what runs have in the cluster, apart from changes to other
// objects: namespaces, pods with rights on their node, simulated nodes and their
// namespaces, and rights of keepers.
func (b *bench) remains(t *testing.T) (out []string) {
	t.Helper()
	client, err := dynamic.NewForConfig(b.lab.RESTConfig())
	must.OK(t, err)
	const rbac = "rbac.authorization.k8s.io"
	for _, of := range []struct {
		group, resource string
		label           string
	}{
		{"", "namespaces", "meshtrial.dev/run"}, {"", "pods", "meshtrial.dev/run"}, {"apps", "daemonsets", "meshtrial.dev/run"},
		{rbac, "roles", "meshtrial.dev/run"}, {rbac, "rolebindings", "meshtrial.dev/run"}, {rbac, "clusterroles", "meshtrial.dev/run"}, {rbac, "clusterrolebindings", "meshtrial.dev/run"},
		{"", "namespaces", "meshtrial.dev/population"}, {"", "nodes", "meshtrial.dev/population"}, {"", "pods", "meshtrial.dev/population"},
	} {
		list, err := client.Resource(schema.GroupVersionResource{Group: of.group, Version: "v1", Resource: of.resource}).List(t.Context(), metav1.ListOptions{LabelSelector: of.label})
		must.OK(t, err)
		for _, o := range list.Items {
			out = append(out, fmt.Sprintf("%s %s", of.resource, strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")))
		}
	}
	return out
}

// oldEnough waits until a run's roles have been running for longer than they
// would alone, without having restarted.
func (b *bench) oldEnough(t *testing.T, g *going) {
	t.Helper()
	g.await(t, "its roles are a minute old", func() bool {
		pods, err := b.kube.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{LabelSelector: site.RunLabel})
		must.OK(t, err)
		young := 0
		for _, pod := range pods.Items {
			for _, c := range pod.Status.ContainerStatuses {
				if c.RestartCount > 0 {
					t.Fatalf("pod %s: container %s was started again: %+v", pod.Name, c.Name, c.LastTerminationState)
				}
				if c.State.Running == nil || time.Since(c.State.Running.StartedAt.Time) < site.Alone+site.Alone/2 {
					young++
				}
			}
		}
		return len(pods.Items) > 0 && young == 0
	})
}

// TestNobodyComesNext kills a control-plane run. What it created disappears
// without further action: the keeper notices that the Lease is no longer renewed
// and deletes the run's namespace, and everything else is deleted with that.
func TestNobodyComesNext(t *testing.T) {
	b := newBench(t)
	out := filepath.Join(b.dir, "killed")
	g := b.start(t, out, b.controlStudy(t, "killed", 300, 1), "--out", out)
	b.changed(t, g, 2)
	b.oldEnough(t, g)
	made := strings.Join(b.remains(t), "\n")
	_, text := g.end(t, os.Kill)
	killed := time.Now()
	for _, part := range []string{"pods meshtrial-", "/meshtrial-keeper-", "/observe-", "roles meshtrial-journal/", "clusterroles meshtrial-", "clusterrolebindings meshtrial-", "nodes mm-node-0"} {
		if !strings.Contains(made, part) {
			t.Errorf("a run at work has no %q:\n%s\n%s", part, made, text)
		}
	}
	eventually.Within(t, 5*time.Minute, "nothing of the run is left", func() bool { return len(b.remains(t)) == 0 })
	t.Logf("%.1f s after the runner was killed all is gone", time.Since(killed).Seconds())
	code, said := b.meshtrial(t, "run", b.controlStudy(t, "next", 2, 1), "--out", filepath.Join(b.dir, "next"))
	measured(t, code, said)
	b.undone(t)
}
