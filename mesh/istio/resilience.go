package istio

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

var (
	_ mesh.Resilience        = (*Mesh)(nil)
	_ mesh.TrafficMaker      = (*Mesh)(nil)
	_ mesh.ConfigChecker     = (*Mesh)(nil)
	_ mesh.RequestLogger     = (*Mesh)(nil)
	_ mesh.EjectionReader    = (*Mesh)(nil)
	_ mesh.EntryCounter      = (*Mesh)(nil)
	_ mesh.CertificateReader = (*Mesh)(nil)
	_ mesh.ConfigServed      = (*Mesh)(nil)
)

// ConfigPods returns the istiod of the revision whose sidecars the study has.
func (m *Mesh) ConfigPods() mesh.ConfigPods {
	namespace, selector := m.ControlPlane()
	return mesh.ConfigPods{Namespace: namespace, Selector: selector, Containers: []string{istiodContainer}}
}

// hashHeader is the header hashed at the level ring_hash of the factor
// load_balancer.
const hashHeader = "x-meshtrial-key"

// defaultAttempts is Istio's default number of retries. See istio.io/docs,
// Traffic management, Retries. It is used if a cell sets other retry properties
// but not their number, because VirtualServices then require the number:
// without it, retries are off.
const defaultAttempts = 2

// retryConditions are the values of retryOn other than status codes. See
// envoyproxy.io/docs, Router, x-envoy-retry-on and x-envoy-retry-grpc-on.
var retryConditions = []string{
	"5xx", "gateway-error", "reset", "reset-before-request", "connect-failure", "envoy-ratelimited", "retriable-4xx", "refused-stream",
	"retriable-status-codes", "retriable-headers", "http3-post-connect-failure",
	"cancelled", "deadline-exceeded", "internal", "resource-exhausted", "unavailable",
}

// level returns a cell's level of a factor; "" if it leaves it to the mesh.
func level(cell record.Cell, factor string) string {
	switch v := cell[factor]; {
	case v == study.NotApplicable, v == study.LevelDefault, v == study.LevelNone,
		v == study.LevelOff && factor != study.FactorRetries:
		return ""
	default:
		return v
	}
}

// Lacks returns what Istio's API would reject.
func (*Mesh) Lacks(cell record.Cell) []mesh.Lack {
	var lacks []mesh.Lack
	if words := level(cell, study.FactorRetryOn); words != "" {
		for word := range strings.SplitSeq(words, ",") {
			code, _ := strconv.Atoi(word)
			if !slices.Contains(retryConditions, word) && http.StatusText(code) == "" {
				lacks = append(lacks, mesh.Lack{Factor: study.FactorRetryOn, Level: words,
					Reason: fmt.Sprintf("unknown condition %q; Istio has %s, and status codes", word, strings.Join(retryConditions, ", "))})
			}
		}
	}
	outliers := level(cell, study.FactorOutlierDetection)
	if most := study.ParseSettings(outliers)["max"]; outliers != "" && most != "" {
		if _, err := wholePercent(most); err != nil {
			lacks = append(lacks, mesh.Lack{Factor: study.FactorOutlierDetection, Level: outliers, Reason: "Istio's maxEjectionPercent: " + err.Error()})
		}
	}
	if v := level(cell, study.FactorLocality); v == study.LocalityPrefer && outliers == "" {
		lacks = append(lacks, mesh.Lack{Factor: study.FactorLocality, Level: v, Reason: "Istio prefers endpoints of its own zone only with outlier_detection, and uses those of other zones once these are ejected"})
	}
	return lacks
}

// wholePercent parses a share such as 50% or 0.5.
func wholePercent(share string) (int64, error) {
	number, isPercent := strings.CutSuffix(share, "%")
	f, err := strconv.ParseFloat(number, 64)
	if !isPercent {
		f *= 100
	}
	n := int64(f + 0.5)
	if err != nil || f-float64(n) > 1e-9 || float64(n)-f > 1e-9 || n < 1 || n > 100 {
		return 0, fmt.Errorf("%s is not a whole percentage from 1 to 100", share)
	}
	return n, nil
}

// Traffic returns a VirtualService for the levers of routes and a
// DestinationRule for those of clusters, each only if the cell sets any. See
// istio.io/docs, Reference, Virtual Service and Destination Rule.
func (*Mesh) Traffic(r mesh.Route, cell record.Cell, zones []string) []*unstructured.Unstructured {
	if r.Via != "" {
		return entering(r, cell)
	}
	var out []*unstructured.Unstructured
	host := hostIn(r.Namespace, r.Name)
	if rule := httpRule(cell); rule != nil {
		rule["route"] = []any{map[string]any{"destination": map[string]any{"host": host}}}
		out = append(out, named(networkingV1, "VirtualService", r.Namespace, r.Name,
			map[string]any{"hosts": []any{host}, "http": []any{rule}}))
	}
	if policy := trafficPolicy(cell); len(policy) > 0 {
		weighZones(policy, cell, zones)
		out = append(out, named(networkingV1, "DestinationRule", r.Namespace, r.Name,
			map[string]any{"host": host, "trafficPolicy": policy}))
	}
	return out
}

// entering returns the Gateway and the VirtualService by which a gateway forwards
// requests, with the levers of routes. Those of clusters come from the route without
// the gateway.
func entering(r mesh.Route, cell record.Cell) []*unstructured.Unstructured {
	rule := httpRule(cell)
	if rule == nil {
		rule = map[string]any{}
	}
	rule["route"] = []any{routeTo(hostIn(r.Namespace, r.Name), int64(r.Port), "")}
	return []*unstructured.Unstructured{
		gatewayListeners(r.Namespace, r.Via, r.Port),
		named(networkingV1, "VirtualService", r.Namespace, r.Via, map[string]any{
			"hosts": []any{hostIn(r.Namespace, r.Via)}, "gateways": []any{r.Namespace + "/" + r.Via}, "http": []any{rule}}),
	}
}

// httpRule returns a VirtualService's only rule for the cell, without its
// route; nil if the cell sets nothing.
func httpRule(cell record.Cell) map[string]any {
	attempts, on, each := level(cell, study.FactorRetries), level(cell, study.FactorRetryOn), level(cell, study.FactorPerTryTimeout)
	rule := map[string]any{}
	switch {
	case attempts == study.LevelOff:
		rule["retries"] = map[string]any{"attempts": int64(0)}
	case attempts != "" || on != "" || each != "":
		retries := map[string]any{"attempts": int64(defaultAttempts)}
		if attempts != "" {
			retries["attempts"] = whole(attempts)
		}
		if on != "" {
			retries["retryOn"] = on
		}
		if each != "" {
			retries["perTryTimeout"] = seconds(each)
		}
		rule["retries"] = retries
	}
	if all := level(cell, study.FactorRequestTimeout); all != "" {
		rule["timeout"] = seconds(all)
	}
	if len(rule) == 0 {
		return nil
	}
	return rule
}

// attempts returns the number of retries in a cell's VirtualService; false if
// it leaves retries to Istio.
func attempts(cell record.Cell) (int64, bool) {
	retries, ok := httpRule(cell)["retries"].(map[string]any)
	if !ok {
		return 0, false
	}
	return retries["attempts"].(int64), true // set by httpRule
}

// outlierFields and poolFields map the settings of the factors, in order, to
// Istio's names.
var outlierFields = []struct{ setting, field string }{
	{"errors", "consecutive5xxErrors"}, {"interval", "interval"}, {"ejection", "baseEjectionTime"}, {"max", "maxEjectionPercent"},
}

var poolFields = []struct{ setting, part, field string }{
	{"connections", "tcp", "maxConnections"}, {"pending", "http", "http1MaxPendingRequests"},
	{"requests", "http", "http2MaxRequests"}, {"retries", "http", "maxRetries"},
}

func trafficPolicy(cell record.Cell) map[string]any {
	policy := map[string]any{}
	if v := level(cell, study.FactorOutlierDetection); v != "" {
		settings, detection := study.ParseSettings(v), map[string]any{}
		for _, f := range outlierFields {
			switch value := settings[f.setting]; {
			case value == "":
			case f.setting == "errors":
				detection[f.field] = whole(value)
			case f.setting == "max":
				percent, _ := wholePercent(value) // Lacks rejects invalid ones
				detection[f.field] = percent
			default:
				detection[f.field] = seconds(value)
			}
		}
		policy["outlierDetection"] = detection
	}
	if v := level(cell, study.FactorCircuitBreaker); v != "" {
		settings, pool := study.ParseSettings(v), map[string]any{}
		for _, f := range poolFields {
			if value := settings[f.setting]; value != "" {
				part, _ := pool[f.part].(map[string]any)
				if part == nil {
					part = map[string]any{}
				}
				part[f.field] = whole(value)
				pool[f.part] = part
			}
		}
		policy["connectionPool"] = pool
	}
	balancer := map[string]any{}
	switch v := level(cell, study.FactorLoadBalancer); v {
	case "":
	case "ring_hash":
		balancer["consistentHash"] = map[string]any{"httpHeaderName": hashHeader}
	default:
		balancer["simple"] = strings.ToUpper(v)
	}
	if v := level(cell, study.FactorLocality); v != "" {
		balancer["localityLbSetting"] = map[string]any{"enabled": v != study.LocalityIgnore}
	}
	if len(balancer) > 0 {
		policy["loadBalancer"] = balancer
	}
	return policy
}

// whole returns a number in the JSON form of the Kubernetes API. Levels have
// already been validated as numbers.
func whole(level string) int64 {
	n, _ := strconv.ParseInt(level, 10, 64)
	return n
}

// seconds formats a duration as protobuf's JSON does, in seconds.
func seconds(level string) string {
	d, _ := time.ParseDuration(level)
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
}
