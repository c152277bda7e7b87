package istio

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// meshConfig is the part of Istio's MeshConfig that determines which levels of the
// factor telemetry are available, what sidecars report by default, and which
// namespaces are watched.
type meshConfig struct {
	ExtensionProviders []provider `json:"extensionProviders"`
	DefaultProviders   struct {
		Metrics []string `json:"metrics"`
		Tracing []string `json:"tracing"`
	} `json:"defaultProviders"`
	DefaultConfig struct {
		Tracing map[string]any `json:"tracing"`
	} `json:"defaultConfig"`
	DiscoverySelectors             []metav1.LabelSelector `json:"discoverySelectors"`
	DefaultDestinationRuleExportTo []string               `json:"defaultDestinationRuleExportTo"`
	RootNamespace                  string                 `json:"rootNamespace"`
	OutboundTrafficPolicy          struct {
		Mode string `json:"mode"`
	} `json:"outboundTrafficPolicy"`
}

type provider struct {
	Name string `json:"name"`
}

func (c meshConfig) hasProvider(name string) bool {
	return slices.Contains(c.ExtensionProviders, provider{name})
}

// rootNamespace returns the namespace whose objects apply to the whole mesh.
func (c meshConfig) rootNamespace() string { return cmp.Or(c.RootNamespace, Namespace) }

// reportsSpans reports whether sidecars report spans by default: to a default
// provider, or to a tracer in the proxies' own configuration. See istio.io/docs,
// MeshConfig, defaultProviders, enableTracing and ProxyConfig.Tracing.
func (c meshConfig) reportsSpans() bool {
	if len(c.DefaultProviders.Tracing) > 0 {
		return true
	}
	for field := range c.DefaultConfig.Tracing {
		if !slices.Contains([]string{"sampling", "customTags", "maxPathTagLength", "enableIstioTags"}, field) {
			return true
		}
	}
	return false
}

// Check verifies that istiod is ready, that there is an injector, and that the
// providers needed by the proxies' levels of telemetry exist. It also determines what
// sidecars report by default, and which Envoys they are, so call it before Policies.
func (m *Mesh) Check(ctx context.Context, cluster *rest.Config, proxies []mesh.Proxy) ([]record.Component, error) {
	client, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		return nil, fmt.Errorf("istio: %w", err)
	}
	return m.check(ctx, client, proxies)
}

func (m *Mesh) check(ctx context.Context, client kubernetes.Interface, proxies []mesh.Proxy) ([]record.Component, error) {
	found, err := readAsFound(ctx, client, m.Revision)
	if err != nil {
		return nil, err
	}
	m.metricsProvider, m.traces = m.found.reported()
	m.traces = m.traces || found.config.reportsSpans()
	if of := found.config.DefaultProviders.Metrics; len(of) > 0 && m.metricsProvider == "" {
		m.metricsProvider = of[0]
	}
	m.upstream = found.isUpstream()
	components := append(found.Components(), m.found.ambient()...)
	if len(m.found.gatewayAPI) > 0 || m.found.noGatewayAPI { // istiod watches it even without any of its objects
		on := map[bool]string{true: "off", false: "on"}[m.found.noGatewayAPI]
		components = append(components, record.Component{Name: record.GatewayAPI, Version: on, Source: record.SourceOfCluster})
	}
	return components, found.refuseProxies(proxies)
}

// readMeshConfig reads the mesh configuration from a ConfigMap of istiod's.
func readMeshConfig(ctx context.Context, client kubernetes.Interface, name string) (meshConfig, error) {
	var config meshConfig
	stored, err := client.CoreV1().ConfigMaps(Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return config, nil // istiod then uses Istio's defaults
	}
	if err != nil {
		return config, fmt.Errorf("istio: read the mesh configuration: %w", err)
	}
	return meshConfigOf(stored.Data[meshConfigKey], name)
}

// meshConfigOf parses the mesh configuration from the ConfigMap name.
func meshConfigOf(text, name string) (config meshConfig, err error) {
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		return config, fmt.Errorf("istio: mesh configuration (ConfigMap %s/%s, key %s): %w", Namespace, name, meshConfigKey, err)
	}
	return config, nil
}
