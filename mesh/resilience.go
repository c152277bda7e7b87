package mesh

import (
	"context"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// TelemetryLedger is the level of the factor telemetry in [Proxy.Levels] at which a sidecar
// writes the request ledger's lines to its standard output: one per request on both sides, and
// one per attempt on the calling side. [Mesh.Policies] includes the objects that enable it;
// [Mesh.Check] rejects a mesh that cannot.
const TelemetryLedger = "ledger"

// Route is a port of a Kubernetes Service, whose requests a mesh carries.
type Route struct {
	Name, Namespace string
	Port            int
	// Via is the gateway through which the requests enter, a Service with the same port and
	// Gated pods; "" if callers reach the Service directly.
	Via string
}

// Resilience is a mesh with levers on the handling of requests: retries, timeouts, outlier
// detection, circuit breakers and load balancing, as spelled in cells. The interfaces below
// describe further capabilities for such studies.
type Resilience interface {
	Mesh
	// Lacks returns what the mesh cannot provide for a cell, with reasons. The study is then
	// rejected before anything starts. Levels that a plan has marked as not applicable are
	// ignored.
	Lacks(cell record.Cell) []Lack
}

// TrafficMaker is a mesh whose levers are separate objects.
type TrafficMaker interface {
	// Traffic returns the objects that apply the cell's levers to the requests to r; none for
	// levers at the mesh's own default or that DecorateService sets. They have r's name and
	// namespace. For a route via a gateway they are what makes the gateway forward requests,
	// with the gateway's name.
	// zones are those of the nodes, as REGION/ZONE, for levels that weigh them.
	Traffic(r Route, cell record.Cell, zones []string) []*unstructured.Unstructured
}

// ConfigChecker is a mesh whose proxies report the configuration in force.
type ConfigChecker interface {
	// ConfigPath returns the path of that report on a proxy's admin port.
	ConfigPath() string
	// CheckTraffic verifies, from the report of a caller's proxy, that each lever is in force
	// for the routes, that levers at their default were left alone, and that the proxy writes
	// the ledger's lines, or none. Configuration takes time to arrive: retry until all are OK.
	CheckTraffic(config []byte, routes []Route, cell record.Cell, ledger bool) []record.Check
}

// RequestLogger is a mesh whose proxies write the ledger's lines.
type RequestLogger interface {
	// LogContainer returns the container whose output has them.
	LogContainer() string
	// LogsInboundOnly reports whether proxies write such lines only about requests to their
	// own pod, not about those that they send.
	LogsInboundOnly() bool
	// ReadLog reads that output until its end or a read error, and calls each with every line
	// of the ledger.
	ReadLog(r io.Reader, source ledger.Source, each func(ledger.ProxyEntry)) (ledger.Lines, error)
}

// EjectionReader is a mesh whose proxies report the endpoints that they ejected for failing.
type EjectionReader interface {
	// EjectedFilter returns a regular expression for the statistics of a caller's proxy that
	// Ejected reads.
	EjectedFilter() string
	// Ejected counts the ejected endpoints by service name in a namespace. It omits services
	// without any.
	Ejected(stats map[string]float64, namespace string) map[string]int
}

// EntryCounter is a mesh whose gateways count what clients do.
type EntryCounter interface {
	// EnteredFilter returns a regular expression for a gateway's statistics that Entered reads.
	EnteredFilter() string
	// Entered returns the sums over the gateway's ports.
	Entered(stats observe.ProxyStats) Entered
}

// Entered is what a gateway counted since it started: connections of clients, those that it
// closed itself, and requests. Active are the connections that are open.
type Entered struct{ Connections, Closed, Requests, Active int64 }

// CertificateReader is a mesh whose proxies report the certificate that they present to
// others.
type CertificateReader interface {
	// CertificatePath returns the path of that report on a proxy's admin port.
	CertificatePath() string
	// Certificate parses the response.
	Certificate(answer []byte) (Certificate, error)
}

// ConfigServed is a mesh whose proxies get their configuration from a control plane.
type ConfigServed interface {
	// ConfigPods returns the pods that steps on the control plane act on.
	ConfigPods() ConfigPods
}

// ConfigPods are the pods of a control plane from which proxies get their configuration and
// endpoints.
type ConfigPods struct {
	Namespace  string
	Selector   string   // of both the pods and their Deployments
	Containers []string // those that do the work
}

// ServerChecker is a mesh that verifies what its proxies accept from callers.
type ServerChecker interface {
	// CheckServer verifies, from the response of a service's proxy at ConfigPath, that it
	// accepts what the cell specifies on a port of its pod.
	CheckServer(config []byte, port int, cell record.Cell) []record.Check
}

// CalloutChecker is a mesh whose proxies can ask a service about each request.
type CalloutChecker interface {
	// CheckCallout verifies, from the response of w's proxy at ConfigPath, that requests to a port
	// of its pod pass the filter that w's level of [study.FactorCallout] names.
	CheckCallout(config []byte, port int, w Workload) []record.Check
}

// PolicyChecker is a mesh whose proxies do not report their configuration, but whose control
// plane reports what it sends them.
type PolicyChecker interface {
	// CheckPolicies verifies the cell's levers for the routes by what the control plane sends
	// to proxies that call them. Changes take time to reach it: retry until all checks are OK.
	// Call [Mesh.Check] first.
	CheckPolicies(ctx context.Context, routes []Route, cell record.Cell) ([]record.Check, error)
}

// LocalityChecker is a mesh whose proxies report which endpoints they prefer.
type LocalityChecker interface {
	// LocalityPath returns the path, on a proxy's admin port, that shows what the cell sets.
	LocalityPath(cell record.Cell) string
	// CheckLocality verifies, from the response of a proxy in a zone (REGION/ZONE), that it
	// prefers endpoints by zone as in the cell.
	CheckLocality(endpoints []byte, zone string, routes []Route, cell record.Cell) []record.Check
}

// TrafficFactors are the levers on requests.
var TrafficFactors = []string{
	study.FactorRetries, study.FactorRetryOn, study.FactorPerTryTimeout, study.FactorRequestTimeout,
	study.FactorOutlierDetection, study.FactorCircuitBreaker, study.FactorLoadBalancer, study.FactorLocality, study.FactorCallout,
}

// Lack is a lever, or a level of it, that a mesh does not support.
type Lack struct {
	Factor, Level string
	Reason        string // the end of a sentence: "Linkerd has no ..."
}

// Certificate is the certificate that a workload presents to its peers.
type Certificate struct {
	// Serial is unique among the certificates of an issuer.
	Serial       string
	From, Expire time.Time // validity, to the second
}

// ExpiredAt reports whether peers reject it at that time.
func (c Certificate) ExpiredAt(t time.Time) bool { return !t.Before(c.Expire) }
