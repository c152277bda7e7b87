// Package linkerd is the adapter for Linkerd with sidecars.
//
// Levers are set in the documented way: pod template annotations for a proxy's
// startup settings (injection, worker threads, CPU limit, access log, accepted
// callers), and Service annotations for what callers do with its requests
// (retries, timeouts, failure accrual). Linkerd's proxies expose no
// configuration, only metrics and their environment. Levers on requests are
// therefore verified at the policy controller, which returns what it tells
// proxies about a Service. The others are verified by the proxies' environment
// and by the counters of both sides.
package linkerd

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Names and ports defined by Linkerd. See linkerd.io/docs, Reference, Proxy
// Configuration.
const (
	proxyContainer = "linkerd-proxy"
	adminPort      = 4191
	componentLabel = "linkerd.io/control-plane-component"
	// destinationPods selects the pods from which proxies get endpoints and
	// policies.
	destinationPods = componentLabel + "=destination"

	injectAnnotation = "linkerd.io/inject"
	configPrefix     = "config.linkerd.io/"
	opaqueAnnotation = configPrefix + "opaque-ports"
)

// Mesh is the adapter.
type Mesh struct {
	// cluster is where the policy controller runs; set by Check.
	cluster *rest.Config
}

var _ mesh.Mesh = (*Mesh)(nil)

// Name returns "linkerd".
func (*Mesh) Name() string { return study.MeshLinkerd }

// Proxies returns sidecars: the injected container. Traffic redirection is set
// up before the pod serves.
func (*Mesh) Proxies(place record.Place) mesh.Proxies {
	if place != record.PlaceSidecar {
		return mesh.Proxies{}
	}
	return mesh.Proxies{Containers: []string{proxyContainer}, AdminPort: adminPort,
		Admin: func(client *http.Client) mesh.Admin { return observe.LinkerdAdmin(client, "") },
		Stats: strings.Join(verifiedStats, "|")}
}

// ControlPlane returns what Linkerd's chart installs: destination with the
// policy controller, identity, and the proxy injector. The sidecars of their
// pods count too.
func (*Mesh) ControlPlane() (namespace, selector string) {
	return Namespace, componentLabel + " in (destination, identity, proxy-injector)"
}

// verifiedStats are the series that Verify examines: requests and connections by
// direction, peer and encryption, and the runtime.
var verifiedStats = []string{`^request_total\{`, `^response_total\{`, `^tcp_open_total\{`, `^` + workersStat + `$`}

// workersStat is the gauge of the number of worker threads of the proxy's
// runtime. It never starts more than there are CPUs, whatever is configured.
// Proxies built without tokio's unstable features lack it.
const workersStat = "tokio_rt_workers"

// Policies returns none: annotations cover everything.
func (*Mesh) Policies([]mesh.Workload) []*unstructured.Unstructured { return nil }

// Decorate requests w's sidecar with its levers, or none, from the injector.
func (m *Mesh) Decorate(w mesh.Workload, pod *corev1.PodTemplateSpec) error {
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	if w.Proxy == nil {
		pod.Annotations[injectAnnotation] = "disabled"
		return nil
	}
	if err := refuse(*w.Proxy); err != nil {
		return fmt.Errorf("workload %s: %w", w.Name, err)
	}
	threads, err := strconv.Atoi(w.Proxy.Level(study.FactorConcurrency))
	if err != nil || threads < 1 {
		return fmt.Errorf("workload %s: concurrency %q is not a number of threads", w.Name, w.Proxy.Level(study.FactorConcurrency))
	}
	set := func(name, value string) { pod.Annotations[configPrefix+name] = value }
	pod.Annotations[injectAnnotation] = "enabled"
	// CPU requests and limits would change the number of threads; a fixed number
	// can be set only in the environment.
	env, err := json.Marshal([]corev1.EnvVar{
		{Name: envCores, Value: strconv.Itoa(threads)}, {Name: envCoresMin, Value: strconv.Itoa(threads)}, {Name: envCoresMax, Value: strconv.Itoa(threads)},
	})
	if err != nil {
		return fmt.Errorf("workload %s: %w", w.Name, err)
	}
	set("proxy-additional-env", string(env))
	if limit := w.Proxy.Set(study.FactorCPULimit); limit != "" {
		set("proxy-cpu-limit", limit)
	}
	set("default-inbound-policy", inboundPolicy(w.Proxy.Level(study.FactorMTLS)))
	if format := accessLog(w.Proxy.Level(study.FactorTelemetry)); format != "" {
		set("access-log", format)
	}
	if w.ControlPort != 0 {
		set("skip-inbound-ports", strconv.Itoa(w.ControlPort))
	}
	if ports := opaquePorts(pod.Spec.Containers); ports != "" {
		pod.Annotations[opaqueAnnotation] = ports
	}
	return nil
}

// Environment variables of the proxy.
const (
	envCores    = "LINKERD2_PROXY_CORES"
	envCoresMin = "LINKERD2_PROXY_CORES_MIN"
	envCoresMax = "LINKERD2_PROXY_CORES_MAX"
	envPolicy   = "LINKERD2_PROXY_INBOUND_DEFAULT_POLICY"
	envLog      = "LINKERD2_PROXY_ACCESS_LOG"
)

// inboundPolicy converts the factor mtls: which clients a proxy accepts. Probes
// of the kubelet are always accepted.
func inboundPolicy(mtls string) string {
	if mtls == study.MTLSStrict {
		return "all-authenticated"
	}
	return "all-unauthenticated"
}

// accessLog converts the factor telemetry; "" for no log.
func accessLog(telemetry string) string {
	switch telemetry {
	case study.TelemetryText:
		return "apache"
	case study.TelemetryJSON, mesh.TelemetryLedger:
		return "json"
	}
	return ""
}

// refuse returns what Linkerd lacks for a proxy.
func refuse(p mesh.Proxy) error {
	for _, lack := range lacksOfProxy(p) {
		return errs.Usage("mesh linkerd does not support %s=%s: %s", lack.Factor, lack.Level, lack.Reason)
	}
	return nil
}

// noPlainText explains why mutual TLS cannot be off.
const noPlainText = "Linkerd always uses mutual TLS between pods with sidecars, except on ports that bypass the sidecar"

func lacksOfProxy(p mesh.Proxy) []mesh.Lack {
	var out []mesh.Lack
	lack := func(factor, level, reason string) {
		out = append(out, mesh.Lack{Factor: factor, Level: level, Reason: reason})
	}
	if p.Level(study.FactorMTLS) == study.MTLSOff {
		lack(study.FactorMTLS, p.Level(study.FactorMTLS), noPlainText)
	}
	if strings.HasSuffix(p.Level(study.FactorTelemetry), "+stats") {
		lack(study.FactorTelemetry, p.Level(study.FactorTelemetry), "Linkerd's proxies always record all their metrics; leave +stats out")
	}
	if p.Set(study.FactorEnvoy) != "" {
		lack(study.FactorEnvoy, p.Set(study.FactorEnvoy), "Linkerd's proxy is not Envoy")
	}
	if p.Set(dataplane.FactorFilters) != "" {
		lack(dataplane.FactorFilters, p.Set(dataplane.FactorFilters), "Linkerd's proxy is not Envoy and has no such parts")
	}
	out = append(out, p.Unknown(study.FactorMTLS, study.FactorTelemetry, study.FactorConcurrency, study.FactorCPULimit, study.FactorEnvoy, dataplane.FactorFilters)...)
	if p.CertificateTTL != 0 {
		lack("certificates", p.CertificateTTL.String(), "Linkerd sets the lifetime of certificates for the whole mesh at installation, and its proxies do not expose them")
	}
	return out
}

// opaquePorts returns the ports that are not HTTP, judged by name. Linkerd
// detects protocols from the first bytes of a connection, which it waits for,
// and ignores names. TLS of the application itself needs no mark.
func opaquePorts(containers []corev1.Container) string {
	var out []string
	for _, c := range containers {
		for _, p := range c.Ports {
			if isOpaque(p.Name) {
				out = append(out, strconv.Itoa(int(p.ContainerPort)))
			}
		}
	}
	return strings.Join(slices.Compact(out), ",")
}

func isOpaque(name string) bool { return name == "tcp" || strings.HasPrefix(name, "tcp-") }

// DecorateService marks ports without HTTP, and sets what callers do with
// requests to the Service.
func (*Mesh) DecorateService(s *corev1.Service, cell record.Cell) {
	set := levers(cell)
	var opaque []string
	for _, p := range s.Spec.Ports {
		if isOpaque(p.Name) {
			opaque = append(opaque, strconv.Itoa(int(p.Port)))
		}
	}
	if len(opaque) > 0 {
		set[opaqueAnnotation] = strings.Join(opaque, ",")
	}
	if len(set) > 0 && s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	maps.Copy(s.Annotations, set)
}
