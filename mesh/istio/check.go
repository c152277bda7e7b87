package istio

import (
	"context"
	"fmt"

	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// meshConfig is the part of Istio's MeshConfig that decides whether levels
// of the factor telemetry can be had.
type meshConfig struct {
	ExtensionProviders []struct {
		Name string `json:"name"`
	} `json:"extensionProviders"`
	DefaultProviders struct {
		Metrics []string `json:"metrics"`
	} `json:"defaultProviders"`
}

// Check finds istiod ready, an injector, and the providers that the proxies'
// levels of telemetry need. It also learns which metrics provider the mesh
// applies by default, so call it before Policies.
func (m *Mesh) Check(ctx context.Context, cluster *rest.Config, proxies []mesh.Proxy) ([]record.Component, error) {
	client, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		return nil, fmt.Errorf("istio: %w", err)
	}
	deployments, err := client.AppsV1().Deployments(Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=istiod"})
	if err != nil {
		return nil, fmt.Errorf("istio: look for istiod in namespace %s: %w", Namespace, err)
	}
	if len(deployments.Items) == 0 {
		return nil, errs.WithHint(fmt.Errorf("istio: there is no istiod in namespace %s", Namespace),
			"install Istio first; on this machine: meshtrial lab up")
	}
	var components []record.Component
	ready := false
	for _, d := range deployments.Items {
		ready = ready || d.Status.AvailableReplicas > 0
		for _, c := range d.Spec.Template.Spec.Containers {
			if c.Name == "discovery" {
				components = append(components, record.Component{Name: "istiod", Version: mesh.Version(c.Image), Source: c.Image})
			}
		}
	}
	if !ready {
		return nil, errs.WithHint(fmt.Errorf("istio: istiod in namespace %s has no available replica", Namespace),
			"kubectl -n %s describe pods -l app=istiod", Namespace)
	}
	hooks, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{LabelSelector: "app=sidecar-injector"})
	if err != nil {
		return nil, fmt.Errorf("istio: look for the injection webhook: %w", err)
	}
	if len(hooks.Items) == 0 && len(proxies) > 0 {
		return nil, errs.WithHint(fmt.Errorf("istio: no sidecar injector is registered"),
			"kubectl get mutatingwebhookconfigurations -l app=sidecar-injector")
	}
	config, err := readMeshConfig(ctx, client)
	if err != nil {
		return nil, err
	}
	m.metricsProvider = ""
	if len(config.DefaultProviders.Metrics) > 0 {
		m.metricsProvider = config.DefaultProviders.Metrics[0]
	}
	return components, needProviders(config, proxies)
}

func readMeshConfig(ctx context.Context, client kubernetes.Interface) (meshConfig, error) {
	var config meshConfig
	stored, err := client.CoreV1().ConfigMaps(Namespace).Get(ctx, "istio", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return config, nil // a revisioned installation: Istio's defaults
	}
	if err != nil {
		return config, fmt.Errorf("istio: read the mesh configuration: %w", err)
	}
	if err := yaml.Unmarshal([]byte(stored.Data["mesh"]), &config); err != nil {
		return config, fmt.Errorf("istio: mesh configuration (ConfigMap %s/istio, key mesh): %w", Namespace, err)
	}
	return config, nil
}
