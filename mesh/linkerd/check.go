package linkerd

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
)

// notThere explains what to do on a cluster without Linkerd.
const notThere = "on this machine: meshtrial lab down, then run with --linkerd DIR (a folder with Linkerd's programs and charts, or a release), or first meshtrial lab up --linkerd DIR; a study of several meshes can leave it out: --set mesh=[none,istio]"

// Check verifies that Linkerd's control plane is ready and has an injector. It
// also stores the cluster for the policy controller, so call it before
// CheckPolicies.
func (m *Mesh) Check(ctx context.Context, cluster *rest.Config, proxies []mesh.Proxy) ([]record.Component, error) {
	client, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		return nil, fmt.Errorf("linkerd: %w", err)
	}
	m.cluster = cluster
	_, selector := m.ControlPlane()
	found, err := client.AppsV1().Deployments(Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("linkerd: find the control plane in namespace %s: %w", Namespace, err)
	}
	if len(found.Items) == 0 {
		return nil, errs.WithHint(errs.Usage("linkerd: no control plane in namespace %s", Namespace), notThere)
	}
	var components []record.Component
	seen := map[string]bool{}
	for _, d := range found.Items {
		if d.Status.AvailableReplicas == 0 {
			return nil, errs.WithHint(fmt.Errorf("linkerd: %s in namespace %s has no available replica", d.Name, Namespace),
				"kubectl -n %s describe pods -l %s=%s", Namespace, componentLabel, d.Labels[componentLabel])
		}
		pod := d.Spec.Template.Spec
		for _, c := range append(pod.InitContainers, pod.Containers...) {
			name := "linkerd-controller"
			switch {
			case c.Name == proxyContainer:
				name = "linkerd2-proxy"
			case c.Name == "policy":
				name = "linkerd-policy-controller"
			case !strings.Contains(c.Image, "controller"):
				continue
			}
			if version := mesh.Version(c.Image); !seen[name+version] {
				seen[name+version] = true
				components = append(components, record.Component{Name: name, Version: version, Source: c.Image})
			}
		}
	}
	hooks, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{LabelSelector: componentLabel + "=proxy-injector"})
	if err != nil {
		return nil, fmt.Errorf("linkerd: find the injection webhook: %w", err)
	}
	if len(hooks.Items) == 0 && len(proxies) > 0 {
		return nil, errs.WithHint(fmt.Errorf("linkerd: no proxy injector is registered"),
			"kubectl get mutatingwebhookconfigurations -l %s=proxy-injector", componentLabel)
	}
	for _, p := range proxies {
		if err := refuse(p); err != nil {
			return nil, err
		}
	}
	return components, nil
}
