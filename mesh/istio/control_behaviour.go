package istio

import (
	"fmt"
	"strings"

	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Levers of istiod's environment are proved by the environment of the running
// process, and where istiod shows what it does by that too: its cache, and
// what its metrics say of debouncing. It shows neither how many proxies it
// pushes to at a time nor how many requests it lets in (its log names neither,
// and no metric counts those that wait), and debounce_max shows only where
// changes come without a rest for longer: those three are proved by the
// environment alone.

// rose is by how much all series of a metric rose together, of those whose
// labels have a text.
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

// checkCache: a cache that is off holds nothing. One that is on holds what was
// pushed, of replicas together, since one may have no proxy; what other variables
// of the cache and selectors of namespaces leave of that is not known.
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
			wrong = append(wrong, fmt.Sprintf("the cache of %s should be off, but holds %s", r.pod, r.cache))
		}
		selectors, _ := r.mesh["discoverySelectors"].([]any)
		plain = plain && len(selectors) == 0 && !partsOff(r.env)
	}
	if pushes := rose(e, "pilot_xds_pushes", ""); l.Level(controlplane.FactorXDSCache) == "true" && plain && pushes > 0 && !holds {
		wrong = append(wrong, fmt.Sprintf("the cache should be on, but holds nothing after %.0f pushes", pushes))
	}
	return []record.Check{check("xds-cache", wrong, detail)}
}

// partsOff says that istiod keeps some types of resources out of its cache.
func partsOff(env map[string]string) bool {
	for name, value := range env {
		if strings.HasPrefix(name, "PILOT_ENABLE_") && strings.HasSuffix(name, "_CACHE") && name != "PILOT_ENABLE_XDS_CACHE" && value != "true" {
			return true
		}
	}
	return false
}

// checkEDSDebounce: with EDS debouncing pushes that endpoints trigger are
// debounced as all are; without it they are not, which shows where nothing
// else triggers any (pilot/pkg/xds/discovery.go, debounce).
func checkEDSDebounce(l mesh.Levers, e mesh.ControlEvidence) []record.Check {
	if !l.Named(controlplane.FactorEDSDebounce) {
		return nil
	}
	const triggers = "pilot_push_triggers"
	endpoints := rose(e, triggers, `type="endpoint"`)
	others := rose(e, triggers, "") - endpoints
	debounced := e.Rises["pilot_debounce_time_count"]
	if endpoints == 0 || l.Level(controlplane.FactorEDSDebounce) != "true" && others > 0 {
		return nil // nothing shows
	}
	return []record.Check{{Name: "eds-debounce", OK: (debounced > 0) == (l.Level(controlplane.FactorEDSDebounce) == "true"),
		Detail: fmt.Sprintf("endpoints triggered %.0f pushes, %.0f pushes were debounced; the cell says eds_debounce: %s", endpoints, debounced, l.Level(controlplane.FactorEDSDebounce))}}
}

// checkDebounce: no push leaves sooner than debounce_after, or debounce_max
// where that came first, after the change that caused it.
func checkDebounce(l mesh.Levers, e mesh.ControlEvidence) []record.Check {
	count, sum := e.Rises["pilot_debounce_time_count"], e.Rises["pilot_debounce_time_sum"]
	after := debounce(l, study.FactorDebounceAfter)
	if count == 0 || !l.Named(study.FactorDebounceAfter) {
		return nil // nothing was debounced, or nobody asked for it
	}
	mean := sum / count
	return []record.Check{{Name: "debounce", OK: mean >= after.Seconds(),
		Detail: fmt.Sprintf("mean of pilot_debounce_time over %.0f pushes: %.4f s; the cell says at least %s", count, mean, after)}}
}
