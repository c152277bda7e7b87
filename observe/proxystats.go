package observe

import (
	"fmt"
	"maps"
	"regexp"
	"strings"
	"time"
)

// ProxyStats has a proxy's statistics at one moment, by the proxy's own names:
// Envoy's unmodified, those of a Prometheus page as formatted by [Metric.Key].
type ProxyStats struct {
	Taken  time.Time
	Uptime time.Duration // of the process, to the second
	// NoUptime means that the proxy does not report it, so that only a decrease of
	// a counter reveals a restart.
	NoUptime bool
	Counters map[string]float64
	Gauges   map[string]float64
}

// seriesOf classifies the wanted series of a Prometheus page. Some counters have no
// type there: proxies in Rust write types as in OpenMetrics, without the suffix of
// the series.
func seriesOf(metrics []Metric, wanted *regexp.Regexp) ProxyStats {
	stats := ProxyStats{Counters: map[string]float64{}, Gauges: map[string]float64{}}
	for _, m := range metrics {
		key := m.Key()
		switch {
		case !wanted.MatchString(key):
		case m.Type == "counter", strings.HasSuffix(m.Name, "_total"):
			stats.Counters[key] += m.Value
		default:
			stats.Gauges[key] = m.Value
		}
	}
	return stats
}

// Values returns counters and gauges together.
func (s ProxyStats) Values() map[string]float64 {
	out := make(map[string]float64, len(s.Counters)+len(s.Gauges))
	maps.Copy(out, s.Gauges)
	maps.Copy(out, s.Counters)
	return out
}

// Since returns the increase of each counter from before to s. A counter that did
// not exist before starts at 0. The error wraps ErrReset if the proxy restarted in
// between.
func (s ProxyStats) Since(before ProxyStats) (map[string]float64, error) {
	elapsed := s.Taken.Sub(before.Taken)
	if elapsed < 0 {
		return nil, fmt.Errorf("a proxy's statistics: the second reading is %v older than the first", -elapsed)
	}
	// Both uptimes are truncated to seconds, so they may differ by up to a second
	// without a restart, and the readings take time themselves.
	if !s.NoUptime && s.Uptime+2*time.Second < before.Uptime+elapsed {
		return nil, fmt.Errorf("the proxy, up for %v and %v later for %v: %w", before.Uptime, elapsed.Round(time.Second), s.Uptime, ErrReset)
	}
	rise := make(map[string]float64, len(s.Counters))
	for name, value := range s.Counters {
		value -= before.Counters[name]
		if value < 0 {
			return nil, fmt.Errorf("the proxy's counter %s fell by %.0f: %w", name, -value, ErrReset)
		}
		rise[name] = value
	}
	for name, value := range before.Counters {
		if _, ok := s.Counters[name]; !ok {
			if value > 0 {
				// A cluster or listener was removed along with its counters; their
				// last increase is lost.
				rise[name] = 0
			}
		}
	}
	return rise, nil
}
