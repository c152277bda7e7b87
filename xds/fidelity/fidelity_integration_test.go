//go:build integration

package fidelity_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshmark/meshmark/lab"
	"github.com/meshmark/meshmark/xds/fidelity"
)

var update = flag.Bool("update", false, "write the recorded transcripts to testdata")

// TestRealAgent records a real agent and Envoy, connecting, through changes,
// and connecting again.
func TestRealAgent(t *testing.T) {
	for _, mode := range []string{fidelity.ModeDelta, fidelity.ModeSotW} {
		t.Run(mode, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
			defer cancel()
			m := newMesh(t, ctx)
			m.listen(t, ctx)
			m.apply(t, ctx, service("one", 8080, "192.0.2.11")+service("two", 8080, "192.0.2.21", "192.0.2.22"))
			pod := m.agent(t, ctx, mode)
			m.quiet(t, ctx, 1)
			m.changes(t, ctx)
			m.recorder.Drop()
			m.quiet(t, ctx, 2)
			all := m.of(t, pod.Name)
			if len(all) != 2 {
				t.Fatalf("%d streams of %s, want 2", len(all), pod.Name)
			}
			for i, name := range []string{"connect", "reconnect"} {
				tr := all[i].Normalise(map[string]string{pod.Name: "POD"})
				t.Logf("%s: %d steps", name, len(tr.Steps))
				if *update {
					if err := os.WriteFile(filepath.Join("testdata", mode+"-"+name+".txt"), []byte(tr.String()), 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

// agent starts a pod with a real agent and returns it when it is ready.
func (m *mesh) agent(t *testing.T, ctx context.Context, mode string) corev1.Pod {
	t.Helper()
	name := "agent-" + mode
	yaml := client(name, mode)
	if err := m.applier.Delete(ctx, []byte(yaml)); err != nil { // of an earlier run
		t.Fatal(err)
	}
	pods := func() []corev1.Pod {
		list, err := m.kube.CoreV1().Pods("fidelity").List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
		if err != nil {
			t.Fatal(err)
		}
		return list.Items
	}
	for len(pods()) > 0 {
		time.Sleep(100 * time.Millisecond)
	}
	m.apply(t, ctx, yaml)
	t.Cleanup(func() {
		if err := m.applier.Delete(context.Background(), []byte(yaml)); err != nil {
			t.Error(err)
		}
	})
	if err := lab.WaitPods(ctx, m.kube, "fidelity", "app="+name, 1); err != nil {
		t.Fatal(err)
	}
	return pods()[0]
}

// of returns the transcripts of streams whose node's identity has a text.
func (m *mesh) of(t *testing.T, text string) []*fidelity.Transcript {
	t.Helper()
	all, err := m.recorder.Transcripts()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(tr *fidelity.Transcript) bool { return !strings.Contains(tr.NodeID(), text) })
}

// changes does to the mesh what moves every core type, with a mark before
// each change.
func (m *mesh) changes(t *testing.T, ctx context.Context) {
	t.Helper()
	for _, change := range []struct{ mark, apply, remove string }{
		{mark: "a service with two endpoints on a new port appears", apply: service("three", 9090, "192.0.2.31", "192.0.2.32")},
		{mark: "one endpoint of it goes", apply: service("three", 9090, "192.0.2.31")},
		{mark: "it goes", remove: service("three", 9090, "192.0.2.31")},
	} {
		m.recorder.Mark(change.mark)
		if change.apply != "" {
			m.apply(t, ctx, change.apply)
		}
		if change.remove != "" {
			if err := m.applier.Delete(ctx, []byte(change.remove)); err != nil {
				t.Fatal(err)
			}
		}
		m.quiet(t, ctx, 1)
	}
}
