// Package istio is the adapter for Istio, with sidecars and as an ambient mesh.
//
// Levers are set in the documented way: pod labels and annotations for what a pod can
// carry (injection, concurrency, CPU limit, proxy image, recorded statistics),
// PeerAuthentication and Telemetry resources selected by workload for the rest. After a
// trial the sidecars' own counters must agree with what the generator sent, or the
// trial is invalid. In an ambient mesh a pod has only a label, and the counters are
// those of ztunnel on its node (ambient.go), and of a waypoint (waypoint.go).
package istio

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Names and ports defined by Istio.
const (
	Namespace      = "istio-system"
	proxyContainer = "istio-proxy"
	adminPort      = 15000
	networkingV1   = "networking.istio.io/v1"
	// jsonProvider is the access log provider of the JSON levels of the factor
	// telemetry. Istio has no built-in one.
	jsonProvider = "meshtrial-json"
	// textProvider is Istio's built-in provider.
	textProvider = "envoy"
	// proxyImageAnnotation replaces the injector's image of a sidecar.
	proxyImageAnnotation = "sidecar.istio.io/proxyImage"
)

// Mesh is the adapter.
type Mesh struct {
	// ProxyImage returns the sidecar's image reference for an Envoy version; nil leaves
	// the image to the injector.
	ProxyImage func(envoyVersion string) (string, error)
	images     map[string]string // facts about the lab's images
	// Revision is the istiod that injects and configures sidecars.
	Revision Revision
	// found is what Choose found of the mesh.
	found AsFound
	// metricsProvider is the mesh's default metrics provider; "" for none. traces means
	// that sidecars report spans by default. Both are determined by Check.
	metricsProvider string
	traces          bool
	// upstream means that the proxies are upstream Envoys, as determined by Check.
	// namespace is that of the workloads passed to Policies.
	upstream  bool
	namespace string

	// The token of the part jwt-token, created on first use.
	once    sync.Once
	made    token
	madeErr error
}

var (
	_ mesh.Mesh       = (*Mesh)(nil)
	_ mesh.Rooted     = (*Mesh)(nil)
	_ mesh.Configured = (*Mesh)(nil)
	_ mesh.Watcher    = (*Mesh)(nil)
	_ mesh.Fitter     = (*Mesh)(nil)
	_ mesh.Chooser    = (*Mesh)(nil)
	_ mesh.Controlled = (*Mesh)(nil)
)

// Name returns "istio".
func (*Mesh) Name() string { return "istio" }

// RootConfigMap returns the name of the ConfigMap that istiod's leader writes to each
// namespace.
func (*Mesh) RootConfigMap() string { return rootCAConfigMap }

// ReceivedStats counts the bytes of the discovery stream, which Envoy receives through
// its agent.
func (*Mesh) ReceivedStats() string { return `^cluster\.xds-grpc;?\.upstream_cx_rx_bytes_total$` }

// Proxies returns sidecars, the injected container, whose init container ends before
// the pod serves; ztunnels on nodes; a waypoint; or the run's gateway.
func (m *Mesh) Proxies(place record.Place) mesh.Proxies {
	switch place {
	case record.PlaceNode:
		out := ztunnels()
		out.Agents = m.found.nodeAgents()
		return out
	case record.PlaceWaypoint:
		return m.waypoints()
	case record.PlaceSidecar, record.PlaceGateway:
	default:
		return mesh.Proxies{}
	}
	out := mesh.Proxies{Containers: []string{proxyContainer}, AdminPort: adminPort,
		Admin: func(client *http.Client) mesh.Admin { return observe.EnvoyAdmin{HTTPClient: client} },
		Stats: "^(" + strings.Join(slices.Concat(verifiedStats, filterStats), "|") + ")$"}
	if place == record.PlaceGateway {
		out.Selector = mesh.AppLabel + "=" + gatewayName
	}
	return out
}

// ControlPlane returns the istiod of the revision.
func (m *Mesh) ControlPlane() (namespace, selector string) { return Namespace, m.Revision.selector() }

// NamespaceLabels returns the labels required by the mesh's discovery selectors.
func (m *Mesh) NamespaceLabels() map[string]string { return m.Revision.NamespaceLabels }

// DecorateService makes a Service use the waypoint, and routes requests that must enter
// through the gateway to it. Istio takes everything else from port names and from its
// own resources.
func (*Mesh) DecorateService(s *corev1.Service, cell record.Cell) {
	switch {
	case study.Waypoint(cell):
		metav1.SetMetaDataLabel(&s.ObjectMeta, useWaypoint, waypointName)
	case study.Entering(cell):
		s.Spec.Selector = map[string]string{mesh.AppLabel: gatewayName}
	}
}

// proxyConfig is the part of Istio's ProxyConfig that pods carry.
type proxyConfig struct {
	Concurrency  int          `yaml:"concurrency"`
	Hold         bool         `yaml:"holdApplicationUntilProxyStarts"`
	StatsMatcher statsMatcher `yaml:"proxyStatsMatcher"`
	// FileFlush is how long access log lines may be buffered.
	FileFlush string `yaml:"fileFlushInterval,omitempty"`
	// Drain is how long the proxy drains when it is stopped; Istio's default is 5s.
	Drain   string        `yaml:"terminationDrainDuration,omitempty"`
	Headers *proxyHeaders `yaml:"proxyHeaders,omitempty"`
	// Metadata is the agent's environment.
	Metadata map[string]string `yaml:"proxyMetadata,omitempty"`
}

type proxyHeaders struct {
	RequestID struct {
		Disabled bool `yaml:"disabled"`
	} `yaml:"requestId"`
}

type statsMatcher struct {
	InclusionRegexps []string `yaml:"inclusionRegexps"`
}

// verifiedStats are the statistics that Verify needs and Istio omits by default. These
// counters are on the request path in every cell alike.
var verifiedStats = []string{
	`cluster\.(outbound|inbound)\|.*\.(upstream_rq_total|upstream_cx_total|upstream_cx_[rt]x_bytes_total|ssl\.handshake)`,
	`cluster\.PassthroughCluster;?\.upstream_cx_total`,
	`listener\..*(15006|1808[0-9]).*\.ssl\.handshake`,
	`filesystem\.write_buffered`,
	`server\.concurrency`,
	workerStats,
}

// sidecarFactors are the factors of sidecars that Decorate and Policies apply.
var sidecarFactors = []string{study.FactorMTLS, study.FactorTelemetry, study.FactorConcurrency, study.FactorCPULimit,
	study.FactorEnvoy, dataplane.FactorInterception, dataplane.FactorFilters}

// Decorate requests w's sidecar with its levers, or none, from the injector.
func (m *Mesh) Decorate(w mesh.Workload, pod *corev1.PodTemplateSpec) error {
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	ambient := study.Ambient(record.Cell{study.FactorSidecars: w.Carrier}) && w.Outside == nil
	switch {
	case w.Proxy == nil:
		pod.Labels["sidecar.istio.io/inject"], pod.Labels[dataplaneMode] = "false", notInMesh // regardless of the namespace
		if ambient {
			pod.Labels[dataplaneMode] = ambientMode
		}
		return nil
	case ambient:
		return fmt.Errorf("workload %s: %w", w.Name, errs.Usage("a pod with a sidecar is not in the ambient mesh: either carries its requests, not both"))
	}
	for _, lack := range w.Proxy.Unknown(sidecarFactors...) {
		return fmt.Errorf("workload %s: %w", w.Name, errs.Usage("mesh istio does not support %s=%s: %s", lack.Factor, lack.Level, lack.Reason))
	}
	config := proxyConfig{Hold: true, StatsMatcher: statsMatcher{verifiedStats}}
	if _, err := fmt.Sscan(w.Proxy.Level(study.FactorConcurrency), &config.Concurrency); err != nil {
		return fmt.Errorf("workload %s: concurrency %q: %w", w.Name, w.Proxy.Level(study.FactorConcurrency), err)
	}
	if withStats(w.Proxy.Level(study.FactorTelemetry)) {
		config.StatsMatcher.InclusionRegexps = []string{".*"}
	}
	if w.Proxy.Level(study.FactorTelemetry) == mesh.TelemetryLedger {
		config.StatsMatcher.InclusionRegexps = slices.Concat(verifiedStats, resilienceStats)
		if w.Gateway {
			config.StatsMatcher.InclusionRegexps = append(config.StatsMatcher.InclusionRegexps, enteringStats)
			config.Headers = &proxyHeaders{} // a gateway would replace requests' ids
			config.Headers.RequestID.Disabled = true
		}
		config.FileFlush = ledgerFlush
	}
	if w.Proxy.Abrupt {
		config.Drain = "0s"
	}
	// See istio.io/docs, Reference, Commands, pilot-agent: environment variables.
	if ttl := w.Proxy.CertificateTTL; ttl > 0 {
		config.Metadata = map[string]string{"SECRET_TTL": ttl.String(), "SECRET_GRACE_PERIOD_RATIO": "0.5"}
	}
	if err := m.decorateParts(w, &config); err != nil {
		return err
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		return fmt.Errorf("workload %s: proxy config: %w", w.Name, err)
	}
	maps.Copy(pod.Labels, m.Revision.podLabels())
	if w.Uncaptured() {
		pod.Annotations[interceptionMode] = "NONE"
	}
	pod.Annotations["proxy.istio.io/config"] = string(text)
	// Requests are small so that many pods fit. Setting them also drops the chart's
	// default limit, so that "none" means none.
	pod.Annotations["sidecar.istio.io/proxyCPU"] = "10m"
	pod.Annotations["sidecar.istio.io/proxyMemory"] = "32Mi"
	if limit := w.Proxy.Set(study.FactorCPULimit); limit != "" {
		pod.Annotations["sidecar.istio.io/proxyCPULimit"] = limit
	}
	if m.ProxyImage != nil {
		image, err := m.ProxyImage(w.Proxy.Set(study.FactorEnvoy))
		if err != nil {
			return fmt.Errorf("workload %s: %w", w.Name, err)
		}
		if image != "" {
			pod.Annotations[proxyImageAnnotation] = image
		}
	}
	return nil
}

// Policies gives each workload with a sidecar its own PeerAuthentication and Telemetry
// resource, an EnvoyFilter for the ledger, and the objects of the parts that its level
// of filters names. It gives the namespace a waypoint if one is on a workload's path,
// and gives servers behind the gateway the gateway and their routes.
func (m *Mesh) Policies(workloads []mesh.Workload) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	if i := slices.IndexFunc(workloads, func(w mesh.Workload) bool { return w.Carrier == study.SidecarsWaypoint }); i >= 0 {
		m.namespace = workloads[i].Namespace
		out = m.waypoint(m.namespace)
	}
	for _, w := range workloads {
		if w.Carrier == study.SidecarsWaypoint {
			out = append(out, askingWaypoint(w)...)
		}
		if w.Proxy == nil {
			continue
		}
		out = append(out,
			object("security.istio.io/v1", "PeerAuthentication", w, map[string]any{
				"mtls": map[string]any{"mode": peerMode(w.Proxy.Level(study.FactorMTLS))},
			}),
			object("telemetry.istio.io/v1", "Telemetry", w, m.telemetry(w.Proxy.Level(study.FactorTelemetry))),
		)
		if w.Proxy.Level(study.FactorTelemetry) == mesh.TelemetryLedger {
			out = append(out, attemptLedger(w))
		}
		if w.Uncaptured() {
			out = append(out, listens(w))
		}
		// Decorate rejects workloads for which this fails.
		parts, _ := m.parts(w)
		out = append(out, parts...)
	}
	return slices.Concat(out, entries(workloads), m.gatewayPath(workloads))
}

// object returns an object that selects a workload's pods.
func object(apiVersion, kind string, w mesh.Workload, spec map[string]any) *unstructured.Unstructured {
	spec["selector"] = map[string]any{"matchLabels": map[string]any{mesh.AppLabel: w.Name}}
	return named(apiVersion, kind, w.Namespace, w.Name, spec)
}

// hostIn returns the host of a Service.
func hostIn(namespace, service string) string {
	return service + "." + namespace + ".svc.cluster.local"
}

// named returns an object.
func named(apiVersion, kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind,
		"metadata": map[string]any{"name": name, "namespace": namespace},
		"spec":     spec,
	}}
}

// peerMode converts the factor mtls. With automatic mTLS, clients follow the server's
// PeerAuthentication.
func peerMode(level string) string {
	switch level {
	case "strict":
		return "STRICT"
	case "off":
		return "DISABLE"
	default:
		return "PERMISSIVE"
	}
}

func (m *Mesh) telemetry(level string) map[string]any {
	spec := map[string]any{}
	provider := ""
	switch {
	case strings.HasPrefix(level, "access-log-text"):
		provider = textProvider
	case strings.HasPrefix(level, "access-log-json"):
		provider = jsonProvider
	case level == mesh.TelemetryLedger:
		provider = ledgerProvider
	}
	// Without a provider's name Istio would fall back to the mesh configuration's
	// accessLogFile. Named providers replace all default ones. See
	// pilot/pkg/model/telemetry.go, mergeLogs.
	logging := map[string]any{"providers": []any{map[string]any{"name": cmp.Or(provider, textProvider)}}}
	if provider == "" {
		logging["disabled"] = true
	}
	spec["accessLogging"] = []any{logging}
	if m.traces {
		spec["tracing"] = []any{map[string]any{"disableSpanReporting": true}}
	}
	if m.metricsProvider != "" {
		spec["metrics"] = []any{map[string]any{
			"providers": []any{map[string]any{"name": m.metricsProvider}},
			"overrides": []any{map[string]any{"disabled": !withStats(level)}},
		}}
	}
	return spec
}

// withStats reports whether a level of the factor telemetry records all of Envoy's
// statistics and, if the mesh has them, Istio's metrics.
func withStats(level string) bool { return strings.HasSuffix(level, "+stats") }

// withAccessLog reports whether a level writes an access log.
func withAccessLog(level string) bool { return strings.HasPrefix(level, "access-log-") }

// jsonFields lists the fields of the JSON access log: those of Istio's default text
// format, under the names that Istio's own JSON log uses.
var jsonFields = [][2]string{
	{"start_time", "%START_TIME%"},
	{"method", "%REQ(:METHOD)%"},
	{"path", "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%"},
	{"protocol", "%PROTOCOL%"},
	{"response_code", "%RESPONSE_CODE%"},
	{"response_flags", "%RESPONSE_FLAGS%"},
	{"bytes_received", "%BYTES_RECEIVED%"},
	{"bytes_sent", "%BYTES_SENT%"},
	{"duration", "%DURATION%"},
	{"request_id", "%REQ(X-REQUEST-ID)%"},
	{"authority", "%REQ(:AUTHORITY)%"},
	{"user_agent", "%REQ(USER-AGENT)%"},
	{"upstream_host", "%UPSTREAM_HOST%"},
	{"upstream_cluster", "%UPSTREAM_CLUSTER%"},
	{"downstream_remote_address", "%DOWNSTREAM_REMOTE_ADDRESS%"},
}
