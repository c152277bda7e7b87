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

// TelemetryLedger is the level of [Proxy.Telemetry] by which a sidecar writes
// to its standard output what the ledger of requests reads: a line per request,
// on both sides, and on the calling side a line per attempt.
// [Mesh.Policies] has the objects that switch it on, [Mesh.Check] refuses a
// mesh that cannot.
const TelemetryLedger = "ledger"

// Route is a port of a Kubernetes Service, whose requests a mesh carries.
type Route struct {
	Name, Namespace string
	Port            int
}

// Resilience is a mesh whose handling of requests has levers: retries,
// timeouts, outlier detection, circuit breakers, load balancing. Cells hold
// them as the factors of studies spell them. What else a mesh can do for such
// studies the interfaces below say, each for itself.
type Resilience interface {
	Mesh
	// Lacks says what of a cell the mesh cannot give, each with a reason; a
	// study is refused for it before anything starts. Levels that a plan has
	// marked as not applicable are not asked for.
	Lacks(cell record.Cell) []Lack
}

// TrafficMaker is a mesh whose levers are objects of their own.
type TrafficMaker interface {
	// Traffic are the objects that give the requests to r the cell's levers,
	// none for levers that stand at the mesh's own default, or that
	// DecorateService says. They carry r's name and namespace.
	Traffic(r Route, cell record.Cell) []*unstructured.Unstructured
}

// ConfigChecker is a mesh whose proxies tell which configuration is in force.
type ConfigChecker interface {
	// ConfigPath is where a proxy tells it on its admin port.
	ConfigPath() string
	// CheckTraffic proves from what a caller's proxy answered there that each
	// lever is in force for the routes, that those at their default were left
	// alone, and that the proxy writes the ledger's lines, or none. Configuration
	// takes its time to arrive: ask until all are OK.
	CheckTraffic(config []byte, routes []Route, cell record.Cell, ledger bool) []record.Check
}

// RequestLogger is a mesh whose proxies write the ledger's lines.
type RequestLogger interface {
	// LogContainer names the container whose output has them.
	LogContainer() string
	// LogsInboundOnly says that proxies write such lines about requests to
	// their own pod alone, not about those they send.
	LogsInboundOnly() bool
	// ReadLog reads that output, until its end or an error of its own, and
	// calls each with every line of the ledger.
	ReadLog(r io.Reader, source ledger.Source, each func(ledger.ProxyEntry)) (ledger.Lines, error)
}

// EjectionReader is a mesh whose proxies tell which endpoints they took out for failing.
type EjectionReader interface {
	// EjectedFilter is a regular expression for the statistics of a caller's
	// proxy that Ejected reads.
	EjectedFilter() string
	// Ejected counts, by name of service in a namespace, the endpoints that
	// the proxy has taken out. Services without are left out.
	Ejected(stats map[string]float64, namespace string) map[string]int
}

// CertificateReader is a mesh whose proxies tell which certificate they show to others.
type CertificateReader interface {
	// CertificatePath is where a proxy tells it on its admin port.
	CertificatePath() string
	// Certificate reads what it answered there.
	Certificate(answer []byte) (Certificate, error)
}

// ServerChecker is a mesh that proves what its proxies accept of callers.
type ServerChecker interface {
	// CheckServer proves from what the proxy of a service answered at
	// ConfigPath that it accepts on a port of its pod what the cell says.
	CheckServer(config []byte, port int, cell record.Cell) []record.Check
}

// PolicyChecker is a mesh whose proxies do not tell their configuration, but whose
// control plane tells what it gives them.
type PolicyChecker interface {
	// CheckPolicies proves the cell's levers for the routes by what the control plane
	// tells proxies that call them. It takes its time to hear of changes: ask
	// until all checks are OK. [Mesh.Check] comes before it.
	CheckPolicies(ctx context.Context, routes []Route, cell record.Cell) ([]record.Check, error)
}

// LocalityChecker is a mesh whose proxies tell which endpoints they ask first.
type LocalityChecker interface {
	// EndpointsPath is where a proxy tells on its admin port the endpoints that it
	// knows.
	EndpointsPath() string
	// CheckLocality proves from what a proxy in a zone (REGION/ZONE) answered there
	// that it asks endpoints by their zones as the cell says.
	CheckLocality(endpoints []byte, zone string, routes []Route, cell record.Cell) []record.Check
}

// TrafficFactors are the levers on requests.
var TrafficFactors = []string{
	study.FactorRetries, study.FactorRetryOn, study.FactorPerTryTimeout, study.FactorRequestTimeout,
	study.FactorOutlierDetection, study.FactorCircuitBreaker, study.FactorLoadBalancer, study.FactorLocality,
}

// Lack is a lever that a mesh does not have, or not with that level.
type Lack struct {
	Factor, Level string
	Reason        string // a sentence's end: "Linkerd has no ..."
}

// Certificate is what a workload shows to its peers.
type Certificate struct {
	// Serial differs between any two certificates of an issuer.
	Serial       string
	From, Expire time.Time // of its validity, to the second
}

// ExpiredAt says whether peers refuse it at that time.
func (c Certificate) ExpiredAt(t time.Time) bool { return !t.Before(c.Expire) }
