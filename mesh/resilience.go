package mesh

import (
	"context"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// TelemetryLedger is the level of [Proxy.Telemetry] at which a sidecar writes the lines of the
// ledger of requests to its standard output: one per request, on both sides, and on the
// calling side one per attempt. [Mesh.Policies] has the objects that enable it; [Mesh.Check]
// rejects a mesh that cannot.
const TelemetryLedger = "ledger"

// Route is a port of a Kubernetes Service, whose requests a mesh carries.
type Route struct {
	Name, Namespace string
	Port            int
}

// Resilience is a mesh whose handling of requests has levers: retries, timeouts, outlier
// detection, circuit breakers, load balancing, as cells spell them. What else a mesh can do
// for such studies, the interfaces below say.
type Resilience interface {
	Mesh
	// Lacks returns what of a cell the mesh cannot provide, with reasons; a study is rejected
	// for it before anything starts. Levels that a plan has marked as not applicable are
	// ignored.
	Lacks(cell record.Cell) []Lack
}

// TrafficMaker is a mesh whose levers are objects of their own.
type TrafficMaker interface {
	// Traffic are the objects that apply the cell's levers to the requests to r, none for
	// levers at the mesh's own default or that DecorateService sets. They carry r's name and
	// namespace.
	Traffic(r Route, cell record.Cell) []*unstructured.Unstructured
}

// ConfigChecker is a mesh whose proxies report the configuration in force.
type ConfigChecker interface {
	// ConfigPath is the path of that report on a proxy's admin port.
	ConfigPath() string
	// CheckTraffic verifies from a caller's proxy's answer that each lever is in force for the
	// routes, that those at their default were left alone, and that the proxy writes the
	// ledger's lines, or none. Configuration takes time to arrive: ask until all are OK.
	CheckTraffic(config []byte, routes []Route, cell record.Cell, ledger bool) []record.Check
}

// RequestLogger is a mesh whose proxies write the ledger's lines.
type RequestLogger interface {
	// LogContainer names the container whose output has them.
	LogContainer() string
	// LogsInboundOnly reports that proxies write such lines about requests to their own pod
	// only, not about those that they send.
	LogsInboundOnly() bool
	// ReadLog reads that output, until its end or an error of its own, and calls each with
	// every line of the ledger.
	ReadLog(r io.Reader, source ledger.Source, each func(ledger.ProxyEntry)) (ledger.Lines, error)
}

// EjectionReader is a mesh whose proxies report the endpoints that they ejected for failing.
type EjectionReader interface {
	// EjectedFilter is a regular expression for the statistics of a caller's
	// proxy that Ejected reads.
	EjectedFilter() string
	// Ejected counts the ejected endpoints, by name of service in a namespace. Services
	// without any are left out.
	Ejected(stats map[string]float64, namespace string) map[string]int
}

// CertificateReader is a mesh whose proxies report the certificate that they present to
// others.
type CertificateReader interface {
	// CertificatePath is the path of that report on a proxy's admin port.
	CertificatePath() string
	// Certificate reads the answer.
	Certificate(answer []byte) (Certificate, error)
}

// ConfigServed is a mesh whose proxies get their configuration from a control plane.
type ConfigServed interface {
	// ConfigPods are the pods that steps on the control plane act on.
	ConfigPods() ConfigPods
}

// ConfigPods are the pods of a control plane from which proxies get their configuration and
// endpoints.
type ConfigPods struct {
	Namespace  string
	Selector   string   // of the pods and their Deployments alike
	Containers []string // those that do the work
}

// ServerChecker is a mesh that verifies what its proxies accept from callers.
type ServerChecker interface {
	// CheckServer verifies, from a service's proxy's answer at ConfigPath, that it accepts
	// what the cell says on a port of its pod.
	CheckServer(config []byte, port int, cell record.Cell) []record.Check
}

// PolicyChecker is a mesh whose proxies do not report their configuration, but whose control
// plane reports what it gives them.
type PolicyChecker interface {
	// CheckPolicies verifies the cell's levers for the routes by what the control plane gives
	// proxies that call them. Changes take time to reach it: ask until all checks are OK. Call
	// [Mesh.Check] first.
	CheckPolicies(ctx context.Context, routes []Route, cell record.Cell) ([]record.Check, error)
}

// LocalityChecker is a mesh whose proxies report which endpoints they prefer.
type LocalityChecker interface {
	// EndpointsPath is the path, on a proxy's admin port, of the endpoints that it knows.
	EndpointsPath() string
	// CheckLocality verifies, from the answer of a proxy in a zone (REGION/ZONE), that it
	// prefers endpoints by zone as the cell says.
	CheckLocality(endpoints []byte, zone string, routes []Route, cell record.Cell) []record.Check
}

// TrafficFactors are the levers on requests.
var TrafficFactors = []string{
	study.FactorRetries, study.FactorRetryOn, study.FactorPerTryTimeout, study.FactorRequestTimeout,
	study.FactorOutlierDetection, study.FactorCircuitBreaker, study.FactorLoadBalancer, study.FactorLocality,
}

// Lack is a lever, or a level of it, that a mesh does not have.
type Lack struct {
	Factor, Level string
	Reason        string // the end of a sentence: "Linkerd has no ..."
}

// Certificate is what a workload presents to its peers.
type Certificate struct {
	// Serial differs between any two certificates of an issuer.
	Serial       string
	From, Expire time.Time // of its validity, to the second
}

// ExpiredAt reports whether peers reject it at that time.
func (c Certificate) ExpiredAt(t time.Time) bool { return !t.Before(c.Expire) }
