package study

import (
	"strconv"
	"strings"
)

// Resilience factors that mesh adapters apply.
const (
	FactorMesh             = "mesh"
	FactorRetries          = "retries"
	FactorRetryOn          = "retry_on"
	FactorPerTryTimeout    = "per_try_timeout"
	FactorRequestTimeout   = "request_timeout"
	FactorOutlierDetection = "outlier_detection"
	FactorCircuitBreaker   = "circuit_breaker"
	FactorLoadBalancer     = "load_balancer"
	FactorLocality         = "locality"
)

// Levels that the code compares with.
const (
	LevelOff = "off"

	LocalityPrefer = "prefer"
	LocalityIgnore = "ignore"
)

// Settings holds the parts of a level such as "errors=5 interval=1s".
type Settings map[string]string

// ParseSettings parses a level of outlier_detection or circuit_breaker; it returns nil for off.
func ParseSettings(level string) Settings {
	if level == LevelOff || level == NotApplicable {
		return nil
	}
	out := Settings{}
	for _, part := range strings.Fields(level) {
		name, value, _ := strings.Cut(part, "=")
		out[name] = value
	}
	return out
}

// OwnZone returns the percentage that a level of [FactorLocality] such as own=80% sends to the
// caller's own zone.
func OwnZone(level string) (percent int, ok bool) {
	text, ok := strings.CutPrefix(level, "own=")
	text, whole := strings.CutSuffix(text, "%")
	if !ok || !whole {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && strconv.Itoa(n) == text
}
