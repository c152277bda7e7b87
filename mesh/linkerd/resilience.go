package linkerd

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/protocol"
)

var (
	_ mesh.Resilience     = (*Mesh)(nil)
	_ mesh.PolicyChecker  = (*Mesh)(nil)
	_ mesh.RequestLogger  = (*Mesh)(nil)
	_ mesh.EjectionReader = (*Mesh)(nil)
	_ mesh.ConfigServed   = (*Mesh)(nil)
)

// ConfigPods returns the pods of Linkerd's destination service, with the policy controller.
func (*Mesh) ConfigPods() mesh.ConfigPods {
	return mesh.ConfigPods{Namespace: Namespace, Selector: destinationPods, Containers: []string{"destination"}}
}

// Annotations of a Service for what callers' proxies do with its requests. See
// linkerd.io/docs, Reference, Retries; Timeouts; Circuit Breaking.
const (
	retryHTTP      = "retry.linkerd.io/http"
	retryLimit     = "retry.linkerd.io/limit"
	retryTimeout   = "retry.linkerd.io/timeout"
	requestTimeout = "timeout.linkerd.io/request"

	accrual     = "balancer.linkerd.io/failure-accrual"
	maxFailures = accrual + "-consecutive-max-failures"
	minPenalty  = accrual + "-consecutive-min-penalty"
	maxPenalty  = accrual + "-consecutive-max-penalty"
)

// Linkerd's own defaults.
const (
	defaultFailures   = 7
	defaultMinPenalty = time.Second
	defaultMaxPenalty = time.Minute
	defaultRetries    = 1
)

// defaultConditions are the retry conditions of a cell with a number of retries and default
// conditions: 502 to 504, with which Linkerd's proxies report failed connections. It is the
// closest to Istio's default.
const defaultConditions = "gateway-error"

// level returns a cell's level of a factor; "" if it leaves it to the mesh. Linkerd retries
// only on request, so off is its default.
func level(cell record.Cell, factor string) string {
	switch v := cell[factor]; v {
	case study.NotApplicable, study.LevelDefault, study.LevelNone, study.LevelOff:
		return ""
	default:
		return v
	}
}

// Lacks returns what Linkerd lacks, entirely or for a single Service.
func (*Mesh) Lacks(cell record.Cell) []mesh.Lack {
	var out []mesh.Lack
	lack := func(factor, format string, args ...any) {
		out = append(out, mesh.Lack{Factor: factor, Level: cell[factor], Reason: fmt.Sprintf(format, args...)})
	}
	if cell[study.FactorMTLS] == study.MTLSOff {
		lack(study.FactorMTLS, "%s", noPlainText)
	}
	for word := range strings.SplitSeq(level(cell, study.FactorRetryOn), ",") {
		if word != "" && conditionOf(word) == (statuses{}) {
			lack(study.FactorRetryOn, "Linkerd retries only by response status (5xx, gateway-error and status codes), not on %q", word)
			break
		}
	}
	if cell[study.FactorProtocol] == protocol.GRPC && level(cell, study.FactorRetries)+level(cell, study.FactorRetryOn) != "" {
		lack(study.FactorRetries, "gRPC failures have HTTP status 200, and meshtrial configures Linkerd's retries by HTTP status only")
	}
	if v := level(cell, study.FactorOutlierDetection); v != "" {
		settings := study.ParseSettings(v)
		if settings["interval"] != "" {
			lack(study.FactorOutlierDetection, "Linkerd's failure accrual counts every response and has no interval; leave interval= out")
		}
		if most := settings["max"]; most != "" && most != "100%" && most != "1" {
			lack(study.FactorOutlierDetection, "Linkerd does not limit how many endpoints may be ejected at once, so only max=100%% is possible")
		}
	}
	if level(cell, study.FactorCircuitBreaker) != "" {
		lack(study.FactorCircuitBreaker, "Linkerd does not limit a Service's connections or requests; what it calls circuit breaking is factor outlier_detection")
	}
	if level(cell, study.FactorLoadBalancer) != "" {
		lack(study.FactorLoadBalancer, "Linkerd has one load balancer: the better of two random endpoints by moving average of latency (EWMA)")
	}
	if level(cell, study.FactorLocality) != "" {
		lack(study.FactorLocality, "Linkerd follows the hints in a Service's EndpointSlices, and has no setting for that")
	}
	if level(cell, study.FactorCallout) != "" {
		lack(study.FactorCallout, "Linkerd's proxy asks no service about requests")
	}
	return out
}

// statuses is a range of status codes.
type statuses struct{ from, to int }

// conditionOf returns the status range of a word of retry_on; zero if Linkerd does not
// support it.
func conditionOf(word string) statuses {
	switch word {
	case "5xx":
		return statuses{500, 599}
	case "gateway-error":
		return statuses{502, 504}
	}
	if code, err := strconv.Atoi(word); err == nil && code >= 100 && code < 600 {
		return statuses{code, code}
	}
	return statuses{}
}

// policy is what callers do with requests to a Service; the zero value is Linkerd's default.
type policy struct {
	retries  int
	statuses []statuses // retried statuses, sorted
	try      time.Duration
	timeout  time.Duration

	accrual  bool
	failures int
	min, max time.Duration
}

// wantedOf returns the policy that a cell requests.
func wantedOf(cell record.Cell) policy {
	var w policy
	retries, on, try := level(cell, study.FactorRetries), level(cell, study.FactorRetryOn), level(cell, study.FactorPerTryTimeout)
	if cell[study.FactorRetries] != study.LevelOff && retries+on+try != "" {
		w.retries, w.statuses, w.try = defaultRetries, rangesOf(conditionsOf(cell)), duration(try)
		if retries != "" {
			w.retries = whole(retries)
		}
	}
	w.timeout = duration(level(cell, study.FactorRequestTimeout))
	if v := level(cell, study.FactorOutlierDetection); v != "" {
		settings := study.ParseSettings(v)
		w.accrual, w.failures, w.min, w.max = true, defaultFailures, defaultMinPenalty, defaultMaxPenalty
		if n := settings["errors"]; n != "" {
			w.failures = whole(n)
		}
		if d := settings["ejection"]; d != "" {
			w.min = duration(d)
			w.max = max(w.max, w.min)
		}
	}
	return w
}

// conditionsOf returns a cell's retry conditions, a comma-separated list of words known to
// conditionOf.
func conditionsOf(cell record.Cell) string {
	return cmp.Or(level(cell, study.FactorRetryOn), defaultConditions)
}

// whole and duration parse levels, which have already been validated.
func whole(level string) int {
	n, _ := strconv.Atoi(level)
	return n
}

func duration(level string) time.Duration {
	d, _ := time.ParseDuration(level)
	return d
}

// millis formats a duration for Linkerd: a whole number with a single unit.
func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) + "ms" }

// levers returns the annotations of a cell's Services.
func levers(cell record.Cell) map[string]string {
	out := map[string]string{}
	w := wantedOf(cell)
	if w.retries > 0 {
		out[retryHTTP], out[retryLimit] = conditionsOf(cell), strconv.Itoa(w.retries)
		if w.try > 0 {
			out[retryTimeout] = millis(w.try)
		}
	}
	if w.timeout > 0 {
		out[requestTimeout] = millis(w.timeout)
	}
	if w.accrual {
		out[accrual], out[maxFailures], out[minPenalty], out[maxPenalty] = "consecutive", strconv.Itoa(w.failures), millis(w.min), millis(w.max)
	}
	return out
}

// LogContainer returns the sidecar.
func (*Mesh) LogContainer() string { return proxyContainer }

// LogsInboundOnly returns true: Linkerd has no log of what a proxy sends, only of requests
// to its own pod.
func (*Mesh) LogsInboundOnly() bool { return true }

// ReadLog reads Linkerd's access log.
func (*Mesh) ReadLog(r io.Reader, source ledger.Source, each func(ledger.ProxyEntry)) (ledger.Lines, error) {
	return ledger.ReadLinkerd(r, source, each)
}

// pendingState is the label of endpoints that a balancer does not select.
const pendingState = `endpoint_state="pending"`

// EjectedFilter selects the gauge of Ejected.
func (*Mesh) EjectedFilter() string { return `^outbound_http_balancer_endpoints\{.*` + pendingState }

// Ejected counts the endpoints that balancers know but do not select because failure accrual
// has tripped, or because there is no connection. A proxy may have several balancers of one
// Service, one per port.
func (*Mesh) Ejected(stats map[string]float64, namespace string) map[string]int {
	out := map[string]int{}
	for key, value := range stats {
		if !strings.HasPrefix(key, "outbound_http_balancer_endpoints{") || !strings.Contains(key, pendingState) || value <= 0 {
			continue
		}
		if mesh.LabelOf(key, "backend_namespace") == namespace {
			service := mesh.LabelOf(key, "backend_name")
			out[service] = max(out[service], int(value))
		}
	}
	return out
}

// rangesOf returns the ranges of a list of conditions, sorted.
func rangesOf(conditions string) []statuses {
	var out []statuses
	for word := range strings.SplitSeq(conditions, ",") {
		out = append(out, conditionOf(word))
	}
	slices.SortFunc(out, inOrder)
	return slices.Compact(out)
}

func inOrder(a, b statuses) int { return cmp.Or(a.from-b.from, a.to-b.to) }
