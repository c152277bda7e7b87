//go:build verify

package fidelity

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/testing/golden"
	"github.com/meshtrial/meshtrial/testing/must"
)

// TestSimulatedSidecarIsLikeARealOne connects a real agent with its Envoy and a
// simulated sidecar of the same identity to the same istiod, makes the same
// changes, drops their streams and lets them return, and compares what they
// sent. It does the same for a gateway: a pod that runs `pilot-agent proxy
// router`, whose listeners come and go with Gateways.
func TestSimulatedSidecarIsLikeARealOne(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Minute)
	defer cancel()
	m := newMesh(t, ctx)
	m.listen(t, ctx)
	m.apply(t, ctx, service("one", 8080, "192.0.2.11")+service("two", 8080, "192.0.2.21", "192.0.2.22"))
	for _, c := range []struct {
		name, node, mode string
		dns              bool // DNS capture: the agent requests the name table
	}{
		{"delta", xds.NodeSidecar, xds.ModeDelta, false}, {"sotw", xds.NodeSidecar, xds.ModeSotW, false}, {"dns", xds.NodeSidecar, xds.ModeDelta, true},
		{"gateway-delta", xds.NodeRouter, xds.ModeDelta, false}, {"gateway-sotw", xds.NodeRouter, xds.ModeSotW, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			name := "agent-" + c.name
			yaml, changes := client(name, c.mode, c.dns), sidecarChanges()
			if c.node == xds.NodeRouter {
				yaml, changes = gateway(name, c.mode), gatewayChanges(name)
			}
			pod := m.agent(t, ctx, name, yaml)
			still(t, ctx, m.recorder, 1, quiet)
			spec := m.sidecar(t, ctx, c.mode, pod)
			spec.Proxies[0].Type, spec.DNSCapture = c.node, c.dns
			fleet, err := xds.Start(ctx, spec)
			must.OK(t, err)
			defer fleet.Stop()
			m.streams(t, ctx, pod, 2)
			m.changes(t, ctx, pod, changes)
			m.recorder.Drop()
			m.streams(t, ctx, pod, 4)
			if c.name == "delta" { // once is enough
				m.recorder.Mark(drained)
				must.OK(t, sleep(ctx, drain))
			}
			real, simulated := apart(m.streams(t, ctx, pod, 4))
			for i, what := range []string{"connect", "reconnect"} {
				names := map[string]string{pod.Name: "POD"}
				recorded := real[i].Normalise(names)
				compare(t, what, recorded, simulated[i].Normalise(names), notImitated, Core...)
				if c.dns {
					// Agent and Envoy are two programs, and their requests
					// interleave at random.
					compare(t, what+", names", recorded, simulated[i].Normalise(names), notImitated, "nds")
				} else if golden.Updating() {
					keep(t, recorded, c.name+"-"+what)
				}
			}
		})
	}
}

// apart separates the streams of a real proxy and its simulated twin. The real
// one connected first; the order in which they return is random.
func apart(all []*Transcript) (real, simulated []*Transcript) {
	real, simulated = slices.Clone(all[:1]), slices.Clone(all[1:2])
	for _, tr := range all[2:] {
		if slices.Contains(first(tr).Fields, "user_agent_build_version") {
			real = append(real, tr)
		} else {
			simulated = append(simulated, tr)
		}
	}
	return real, simulated
}

// keep writes a transcript into testdata, up to the wait for draining
// listeners.
func keep(t *testing.T, recorded *Transcript, name string) {
	t.Helper()
	kept := *recorded
	if i := slices.IndexFunc(kept.Steps, func(s Step) bool { return s.Kind == Mark && s.Type == drained }); i >= 0 {
		kept.Steps = kept.Steps[:i]
	}
	data, err := yaml.Marshal(kept)
	if err == nil {
		err = os.WriteFile(filepath.Join("testdata", name+".yaml"), data, 0o644)
	}
	if err != nil {
		t.Error(err)
	}
}

// quiet is how long nothing may arrive before a change counts as complete;
// istiod waits 100 ms for more changes.
const quiet = 1500 * time.Millisecond

// drain is slightly longer than a removed listener keeps draining, 45 s, after
// which the routes that only it used are unsubscribed.
const (
	drain   = 50 * time.Second
	drained = "drained"
)

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// first returns what a stream's client reported about itself.
func first(tr *Transcript) *Node {
	for _, s := range tr.Steps {
		if s.Node != nil {
			return s.Node
		}
	}
	return &Node{}
}

// sidecar returns a simulated sidecar with a pod's identity, which
// authenticates with a token of the pod's service account.
func (m *mesh) sidecar(t *testing.T, ctx context.Context, mode string, pod corev1.Pod) xds.Spec {
	t.Helper()
	spec := xds.DefaultSpec(m.address)
	spec.Mode = mode
	token, err := m.kube.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, pod.Spec.ServiceAccountName,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"istio-ca"}}}, metav1.CreateOptions{})
	must.OK(t, err)
	spec.Security = xds.Security{Mode: xds.SecurityToken, RootCA: m.root, ServerName: recorderName, Tokens: map[string]string{"": token.Status.Token}}
	spec.Proxies = []xds.Proxy{{Name: pod.Name, Namespace: pod.Namespace, IP: pod.Status.PodIP, ServiceAccount: pod.Spec.ServiceAccountName,
		Node: pod.Spec.NodeName, Labels: pod.Labels, Ports: []xds.Port{{Name: "http", ContainerPort: 80, Protocol: "TCP"}}}}
	return spec
}

// streams waits until a pod has had this many streams and no more messages
// pass, and returns them in the order in which they began.
func (m *mesh) streams(t *testing.T, ctx context.Context, pod corev1.Pod, n int) []*Transcript {
	t.Helper()
	for {
		still(t, ctx, m.recorder, n, quiet)
		all, err := m.recorder.Transcripts()
		must.OK(t, err)
		all = slices.DeleteFunc(all, func(tr *Transcript) bool { return !strings.Contains(tr.NodeID(), pod.Name) })
		if len(all) == n {
			return all
		}
		if len(all) > n || ctx.Err() != nil {
			t.Fatalf("%d streams of %s, want %d", len(all), pod.Name, n)
		}
	}
}

// agent starts a pod with a real agent and returns it once it is ready.
func (m *mesh) agent(t *testing.T, ctx context.Context, name, yaml string) corev1.Pod {
	t.Helper()
	if err := m.applier.Delete(ctx, []byte(yaml)); err != nil { // from an earlier run
		t.Fatal(err)
	}
	pods := func() []corev1.Pod {
		list, err := m.kube.CoreV1().Pods("fidelity").List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
		must.OK(t, err)
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
	must.OK(t, lab.WaitPods(ctx, m.kube, "fidelity", "app="+name, 1))
	return pods()[0]
}

// change is a change to the mesh after a mark.
type change struct{ mark, apply, remove string }

// sidecarChanges returns changes that affect every core type of a sidecar.
func sidecarChanges() []change {
	return []change{
		{mark: "a service with two endpoints on a new port appears", apply: service("three", 9090, "192.0.2.31", "192.0.2.32")},
		{mark: "one endpoint of it goes", apply: service("three", 9090, "192.0.2.31")},
		{mark: "it goes", remove: service("three", 9090, "192.0.2.31")},
	}
}

// gatewayChanges returns changes that affect every core type of a gateway.
func gatewayChanges(name string) []change {
	return []change{
		{mark: "a service with two endpoints appears", apply: service("three", 9090, "192.0.2.31", "192.0.2.32")},
		{mark: "a Gateway and a VirtualService lead to it", apply: exposed(name, "three", 9090)},
		{mark: "one endpoint of it goes", apply: service("three", 9090, "192.0.2.31")},
		{mark: "Gateway and VirtualService go", remove: exposed(name, "three", 9090)},
		{mark: "the service goes", remove: service("three", 9090, "192.0.2.31")},
	}
}

// changes makes changes to the mesh, with a mark before each, and waits until
// both streams of a pod, which need all of them, have been notified and have
// answered: late messages must not follow the next mark.
func (m *mesh) changes(t *testing.T, ctx context.Context, pod corev1.Pod, list []change) {
	t.Helper()
	for _, change := range list {
		m.recorder.Mark(change.mark)
		if change.apply != "" {
			m.apply(t, ctx, change.apply)
		}
		if change.remove != "" {
			must.OK(t, m.applier.Delete(ctx, []byte(change.remove)))
		}
		for limit := time.Now().Add(time.Minute); ; {
			still(t, ctx, m.recorder, 1, quiet)
			late := m.late(t, pod, change.mark)
			if late == "" {
				break
			}
			if time.Now().After(limit) { // the comparison shows the consequences
				t.Logf("after a minute, %s: %s", change.mark, late)
				break
			}
		}
	}
}

// late returns the stream of a pod that was not notified of what followed a
// mark, or has not answered yet; "" for none.
func (m *mesh) late(t *testing.T, pod corev1.Pod, mark string) string {
	t.Helper()
	all, err := m.recorder.Transcripts()
	must.OK(t, err)
	for i, tr := range all {
		if !strings.Contains(tr.NodeID(), pod.Name) {
			continue
		}
		at := slices.IndexFunc(tr.Steps, func(s Step) bool { return s.Kind == Mark && s.Type == mark })
		if at < 0 {
			return fmt.Sprintf("stream %d has no such mark", i)
		}
		if !slices.ContainsFunc(tr.Steps[at:], func(s Step) bool { return s.Kind == FromServer }) {
			return fmt.Sprintf("stream %d was told nothing", i)
		}
		if n := tr.Unanswered(Core...); n > 0 {
			return fmt.Sprintf("stream %d has not answered %d responses", i, n)
		}
	}
	return ""
}
