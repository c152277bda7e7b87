package istio

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/mesh"
	admission "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

var _ mesh.Revisioned = (*Mesh)(nil)

// namespaceInjection is the namespace label that injectors of the default revision
// match. It takes precedence over the label of revisions.
const namespaceInjection = "istio-injection"

// Plane returns the istiod of a revision. See istio.io/docs, "Canary upgrades": a
// namespace is moved by its label istio.io/rev, in place of istio-injection.
func (m *Mesh) Plane(ctx context.Context, kube kubernetes.Interface, name string) (mesh.Plane, error) {
	if m.Revision.Deployment == "" {
		return mesh.Plane{}, errs.WithHint(errs.Usage("istio: istiod has no label %s, so its pods cannot be distinguished from those of another revision", revisionLabel),
			"add the label %s=%s to its Deployment and its pods (spec.template), as Istio's charts do", revisionLabel, defaultRevision)
	}
	if name == "" {
		return m.Revision.plane(m.began()), nil
	}
	to, err := findRevision(ctx, kube, name)
	if err != nil {
		return mesh.Plane{}, err
	}
	if to.Name == m.Revision.Name {
		return mesh.Plane{}, errs.WithHint(errs.Usage("istio: a step moves the namespace to revision %s, which its pods start with", to.Name),
			"move it to another revision, or start the pods with another: --revision")
	}
	found := to.plane(to.moved(), map[string]string{revisionLabel: ""})
	ztunnel := ""
	if m.images[factSecondTag] != "" && to.image == m.images[factSecondHub]+"/pilot:"+m.images[factSecondTag] {
		found.PodAnnotations = map[string]string{proxyImageAnnotation: m.images[factSecondHub] + "/proxyv2:" + m.images[factSecondTag]}
		ztunnel = m.images[factSecondZtunnel]
	}
	found.OnNodes = func(daemonSet *unstructured.Unstructured) error { return to.connectZtunnels(daemonSet, ztunnel) }
	if ztunnel != "" {
		found.NodeVersion = mesh.Version(ztunnel)
	}
	if err := m.fitMoved(ctx, kube, to, found.Labels); err != nil {
		return mesh.Plane{}, err
	}
	return found, nil
}

func (r Revision) plane(namespace, pods map[string]string) mesh.Plane {
	return mesh.Plane{Revision: r.Name, Version: mesh.Version(r.image), Discovery: plaintextPort, Namespace: Namespace, Selector: r.selector(), Deployment: r.Deployment, Port: monitoringPort, Labels: namespace, PodLabels: pods}
}

// began returns those initial labels of a run's namespace and its pods that moves
// change.
func (m *Mesh) began() (namespace, pods map[string]string) {
	namespace = map[string]string{}
	for _, key := range []string{revisionLabel, namespaceInjection} {
		namespace[key] = m.Revision.NamespaceLabels[key]
	}
	return namespace, map[string]string{revisionLabel: m.Revision.podLabels()[revisionLabel]}
}

// moved returns the labels of a namespace that was moved to the revision.
func (r Revision) moved() map[string]string {
	out := maps.Clone(r.NamespaceLabels)
	if out == nil {
		out = map[string]string{}
	}
	out[revisionLabel], out[namespaceInjection] = r.Name, ""
	return out
}

// fitMoved refuses to move a run's namespace if either istiod would not watch it, or no
// injector of the target would match its pods.
func (m *Mesh) fitMoved(ctx context.Context, kube kubernetes.Interface, to Revision, moved map[string]string) error {
	namespace := labels.Set{"kubernetes.io/metadata.name": "meshtrial-run"}
	for _, more := range []map[string]string{givenLabels, m.Revision.NamespaceLabels, moved} {
		maps.Copy(namespace, more)
	}
	maps.DeleteFunc(namespace, func(_, value string) bool { return value == "" })
	for _, r := range []Revision{m.Revision, to} { // clients stay, services move
		if seen := (namespaceSeen{known: true, there: true, labels: namespace}); !seen.watchedBy(r.selectors) {
			return errs.WithHint(errs.Usage("istio: istiod of revision %s would not watch a namespace with labels %s: its discoverySelectors match none of them", r.Name, namespace),
				"add a selector to its meshConfig.discoverySelectors: matchLabels: {app.kubernetes.io/part-of: meshtrial}")
		}
	}
	hooks, err := kube.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{LabelSelector: injectorLabel})
	if err != nil {
		return fmt.Errorf("istio: find the injection webhook of revision %s: %w", to.Name, err)
	}
	pod := labels.Set{injectLabel: "true"}
	takes := func(hook admission.MutatingWebhookConfiguration) bool {
		return hook.Labels[revisionLabel] == to.Name && slices.ContainsFunc(hook.Webhooks, func(w admission.MutatingWebhook) bool {
			trusted := w.ClientConfig.URL != nil || len(w.ClientConfig.CABundle) > 0 // istiod writes it once it serves
			return trusted && matched(w.NamespaceSelector, namespace) && matched(w.ObjectSelector, pod)
		})
	}
	if !slices.ContainsFunc(hooks.Items, takes) {
		return errs.WithHint(fmt.Errorf("istio: no working sidecar injector of revision %s matches pods of namespaces with the label %s=%s", to.Name, revisionLabel, to.Name),
			"kubectl get mutatingwebhookconfigurations -l %s -o yaml", injectorLabel)
	}
	return nil
}

// synced is istiod's state of a connected proxy (pilot/pkg/xds/debug.go, SyncStatus).
type synced struct {
	Proxy         string `json:"proxy"`
	Type          string `json:"proxy_type"`
	ClusterSent   string `json:"cluster_sent"`
	ClusterAcked  string `json:"cluster_acked"`
	ListenerSent  string `json:"listener_sent"`
	ListenerAcked string `json:"listener_acked"`
	// Resources has the nonces by type URL. Older istiods lack it.
	Resources map[string]struct {
		Sent  string `json:"sent"`
		Acked string `json:"acked"`
	} `json:"resources"`
}

// acknowledged reports whether a proxy has acknowledged the configuration last sent to it. A
// ztunnel gets neither clusters nor listeners.
func (s synced) acknowledged() bool {
	if s.Type != ztunnelName {
		return s.ClusterSent != "" && s.ClusterAcked == s.ClusterSent && s.ListenerSent != "" && s.ListenerAcked == s.ListenerSent
	}
	for _, r := range s.Resources {
		if r.Sent == "" || r.Acked != r.Sent {
			return false
		}
	}
	return len(s.Resources) > 0
}

// Connected reads istiod's own list of streams, which contains exactly the connected
// proxies, regardless of their bootstrap or labels.
func (*Mesh) Connected(ctx context.Context, client *http.Client, namespace string) ([]mesh.Connected, error) {
	var all []synced
	if err := fetch(ctx, client, "/debug/syncz?namespace="+url.QueryEscape(namespace), &all); err != nil {
		return nil, fmt.Errorf("list proxies connected to istiod: %w", err)
	}
	return connectedOf(all, namespace), nil
}

// connectedOf returns the pods of a namespace in istiod's list.
func connectedOf(all []synced, namespace string) []mesh.Connected {
	var out []mesh.Connected
	for _, one := range all {
		pod, ok := strings.CutSuffix(one.Proxy, "."+namespace)
		if !ok {
			continue
		}
		out = append(out, mesh.Connected{Pod: pod, Acknowledged: one.acknowledged()})
	}
	return out
}
