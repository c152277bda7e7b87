package istio

import (
	"fmt"
	"strings"

	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Levers in istiod's environment are verified by the environment of the running
// process, and additionally by istiod's behaviour where it is visible: its cache,
// and debouncing through its metrics. It exposes neither the number of proxies it
// pushes to concurrently nor the number of requests it admits (its log names
// neither, and no metric counts waiting ones), and debounce_max is visible only
// if changes continue without a pause for longer. These three are verified by the
// environment alone.

// rose returns the total increase of the series of a metric whose labels contain
// a text.
func rose(e mesh.ControlEvidence, metric, label string) float64 {
	sum := 0.0
	for key, by := range e.Rises {
		name, labels, _ := strings.Cut(key, "{")
		if name == metric && strings.Contains(labels, label) {
			sum += by
		}
	}
	return sum
}

// checkCache: a disabled cache is empty. An enabled one contains what was pushed,
// over all replicas together because some may have no proxy. How much other cache
// variables and namespace selectors leave of that is unknown.
func checkCache(s state, l mesh.Levers, e mesh.ControlEvidence) []record.Check {
	if !l.Named(controlplane.FactorXDSCache) {
		return nil
	}
	var wrong []string
	detail, holds, plain := "", false, true
	for _, r := range s.replicas {
		detail = "istiod's XDS cache holds " + r.cache
		holds = holds || r.cache != "0B"
		if l.Level(controlplane.FactorXDSCache) == "false" && r.cache != "0B" {
			wrong = append(wrong, fmt.Sprintf("the cache of %s should be disabled, but holds %s", r.pod, r.cache))
		}
		selectors, _ := r.mesh["discoverySelectors"].([]any)
		plain = plain && len(selectors) == 0 && !partsOff(r.env)
	}
	if pushes := rose(e, "pilot_xds_pushes", ""); l.Level(controlplane.FactorXDSCache) == "true" && plain && pushes > 0 && !holds {
		wrong = append(wrong, fmt.Sprintf("the cache should be enabled, but is empty after %.0f pushes", pushes))
	}
	return []record.Check{check("xds-cache", wrong, detail)}
}

// partsOff reports whether istiod excludes some types of resources from its
// cache.
func partsOff(env map[string]string) bool {
	for name, value := range env {
		if strings.HasPrefix(name, "PILOT_ENABLE_") && strings.HasSuffix(name, "_CACHE") && name != "PILOT_ENABLE_XDS_CACHE" && value != "true" {
			return true
		}
	}
	return false
}

// checkEDSDebounce: with EDS debouncing, pushes triggered by endpoints are
// debounced like all others; without it they are not, which is visible only if
// nothing else triggers debouncing (pilot/pkg/xds/discovery.go, debounce).
func checkEDSDebounce(l mesh.Levers, e mesh.ControlEvidence) []record.Check {
	if !l.Named(controlplane.FactorEDSDebounce) {
		return nil
	}
	const triggers = "pilot_push_triggers"
	endpoints := rose(e, triggers, `type="endpoint"`)
	others := rose(e, triggers, "") - endpoints
	debounced := e.Rises["pilot_debounce_time_count"]
	if endpoints == 0 || l.Level(controlplane.FactorEDSDebounce) != "true" && others > 0 {
		return nil // not observable
	}
	return []record.Check{{Name: "eds-debounce", OK: (debounced > 0) == (l.Level(controlplane.FactorEDSDebounce) == "true"),
		Detail: fmt.Sprintf("endpoints triggered %.0f pushes, %.0f pushes were debounced; the cell sets eds_debounce: %s", endpoints, debounced, l.Level(controlplane.FactorEDSDebounce))}}
}

// checkDebounce: no push starts sooner than debounce_after, or debounce_max if
// that elapsed first, after the change that caused it.
func checkDebounce(l mesh.Levers, e mesh.ControlEvidence) []record.Check {
	count, sum := e.Rises["pilot_debounce_time_count"], e.Rises["pilot_debounce_time_sum"]
	after := debounce(l, study.FactorDebounceAfter)
	if count == 0 || !l.Named(study.FactorDebounceAfter) {
		return nil // nothing was debounced, or the levers are not named
	}
	mean := sum / count
	return []record.Check{{Name: "debounce", OK: mean >= after.Seconds(),
		Detail: fmt.Sprintf("mean of pilot_debounce_time over %.0f pushes: %.4f s; the cell sets at least %s", count, mean, after)}}
}
