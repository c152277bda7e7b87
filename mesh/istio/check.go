package istio

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	admission "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// meshConfig is the part of Istio's MeshConfig that decides whether levels
// of the factor telemetry can be had, and which namespaces are watched.
type meshConfig struct {
	ExtensionProviders []struct {
		Name string `json:"name"`
	} `json:"extensionProviders"`
	DefaultProviders struct {
		Metrics []string `json:"metrics"`
	} `json:"defaultProviders"`
	DiscoverySelectors []metav1.LabelSelector `json:"discoverySelectors"`
}

// Check finds istiod ready, an injector, and the providers that the proxies'
// levels of telemetry need. It also learns which metrics provider the mesh
// applies by default, so call it before Policies.
func (m *Mesh) Check(ctx context.Context, cluster *rest.Config, proxies []mesh.Proxy) ([]record.Component, error) {
	client, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		return nil, fmt.Errorf("istio: %w", err)
	}
	deployments, err := client.AppsV1().Deployments(Namespace).List(ctx, metav1.ListOptions{LabelSelector: m.Revision.selector()})
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
			"kubectl -n %s describe pods -l %s", Namespace, m.Revision.selector())
	}
	hooks, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{LabelSelector: injectorLabel})
	if err != nil {
		return nil, fmt.Errorf("istio: look for the injection webhook: %w", err)
	}
	if len(proxies) > 0 && !slices.ContainsFunc(hooks.Items, m.injects) {
		return nil, errs.WithHint(fmt.Errorf("istio: no sidecar injector%s is registered", m.ofRevision()),
			"kubectl get mutatingwebhookconfigurations -l %s", injectorLabel)
	}
	config, err := readMeshConfig(ctx, client, cmp.Or(m.Revision.ConfigMap, meshConfigMap))
	if err != nil {
		return nil, err
	}
	m.metricsProvider = ""
	if len(config.DefaultProviders.Metrics) > 0 {
		m.metricsProvider = config.DefaultProviders.Metrics[0]
	}
	return components, needProviders(config, proxies)
}

// injects says that a webhook is of the revision; any is, where none is named.
func (m *Mesh) injects(hook admission.MutatingWebhookConfiguration) bool {
	return m.Revision.Deployment == "" || hook.Labels[revisionLabel] == m.Revision.Name
}

func (m *Mesh) ofRevision() string {
	if m.Revision.isDefault() {
		return ""
	}
	return " of revision " + m.Revision.Name
}

// readMeshConfig reads the mesh configuration in a ConfigMap of istiod's.
func readMeshConfig(ctx context.Context, client kubernetes.Interface, name string) (meshConfig, error) {
	var config meshConfig
	stored, err := client.CoreV1().ConfigMaps(Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return config, nil // istiod then uses Istio's defaults
	}
	if err != nil {
		return config, fmt.Errorf("istio: read the mesh configuration: %w", err)
	}
	if err := yaml.Unmarshal([]byte(stored.Data["mesh"]), &config); err != nil {
		return config, fmt.Errorf("istio: mesh configuration (ConfigMap %s/%s, key mesh): %w", Namespace, name, err)
	}
	return config, nil
}
