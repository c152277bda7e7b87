package observe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/record"
)

// Fetch reads a page of metrics in the Prometheus text format.
func Fetch(ctx context.Context, client *http.Client, url string) ([]Metric, error) {
	page, err := fetch(ctx, client, http.MethodGet, url, "metrics of "+url, maxPage)
	if err != nil {
		return nil, err
	}
	metrics, err := ParsePrometheus(page)
	if err != nil {
		return nil, fmt.Errorf("metrics of %s: %w", url, err)
	}
	return metrics, nil
}

// Replica is one process of a replicated server, with access to its metrics.
type Replica struct {
	Name string       // of the pod
	HTTP *http.Client // must connect to the port that serves /metrics
	// Base is the URL without /metrics and /debug; "" for http://NAME.
	Base string
}

func (r Replica) url(path string) string {
	if r.Base == "" {
		return "http://" + r.Name + path
	}
	return strings.TrimSuffix(r.Base, "/") + path
}

// Scrape has the metrics of all replicas at about one instant.
type Scrape struct {
	At       time.Time
	Replicas map[string][]Metric // by name
}

// ScrapeAll reads the metrics of every replica.
func ScrapeAll(ctx context.Context, replicas []Replica) (Scrape, error) {
	out := Scrape{Replicas: make(map[string][]Metric, len(replicas))}
	for _, r := range replicas {
		page, err := Fetch(ctx, r.HTTP, r.url("/metrics"))
		if err != nil {
			return out, fmt.Errorf("%s: %w", r.Name, err)
		}
		out.Replicas[r.Name] = page
	}
	out.At = time.Now()
	return out, nil
}

// counts reports whether a series is monotonic; untyped series may decrease.
func (m Metric) counts() bool { return m.Type == "counter" }

// Since returns the increase of counters, histograms and sums between two
// scrapes, by series in Prometheus notation, summed over replicas. A new series
// starts at zero; unchanged series are included with 0. The error wraps
// [ErrReset] if a replica restarted, appeared or disappeared, because its
// counts are then unknown.
func (s Scrape) Since(before Scrape) (map[string]float64, error) {
	for name := range before.Replicas {
		if s.Replicas[name] == nil {
			return nil, fmt.Errorf("metrics of %s, which is gone: %w", name, ErrReset)
		}
	}
	out := map[string]float64{}
	for name, page := range s.Replicas {
		first, ok := before.Replicas[name]
		if !ok {
			return nil, fmt.Errorf("metrics of %s, which is new: %w", name, ErrReset)
		}
		if a, b := start(first), start(page); a != b {
			return nil, fmt.Errorf("metrics of %s, which started again: %w", name, ErrReset)
		}
		from := make(map[string]float64, len(first))
		for _, m := range first {
			if m.counts() {
				from[m.Key()] = m.Value
			}
		}
		for _, m := range page {
			if !m.counts() {
				continue
			}
			key := m.Key()
			if m.Value < from[key] {
				return nil, fmt.Errorf("metrics of %s: %s fell from %g to %g: %w", name, key, from[key], m.Value, ErrReset)
			}
			if rise := m.Value - from[key]; !math.IsNaN(rise) {
				out[key] += rise
			}
		}
	}
	return out, nil
}

// start returns a process's start time; 0 if the page lacks it.
func start(page []Metric) float64 {
	value, _ := Sum(page, "process_start_time_seconds", nil)
	return value
}

// Gauges returns the gauges by series, summed over replicas.
func (s Scrape) Gauges() map[string]float64 {
	out := map[string]float64{}
	for _, page := range s.Replicas {
		for _, m := range page {
			if m.Type == "gauge" && !math.IsNaN(m.Value) && !math.IsInf(m.Value, 0) {
				out[m.Key()] += m.Value
			}
		}
	}
	return out
}

// Sum returns the sum of a metric over replicas and all its series.
func (s Scrape) Sum(name string) (sum float64, found bool) {
	for _, page := range s.Replicas {
		value, ok := Sum(page, name, nil)
		sum, found = sum+value, found || ok
	}
	return sum, found
}

// Lacks returns the names of metrics that no replica has. Histograms are named
// without _bucket, _sum and _count.
func (s Scrape) Lacks(names []string) []string {
	have := map[string]bool{}
	for _, page := range s.Replicas {
		for _, m := range page {
			have[m.Name] = true
			have[strings.TrimSuffix(m.Name, "_count")] = true
		}
	}
	var out []string
	for _, name := range names {
		if !have[name] {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// ProcessCPU returns the CPU time of a process between two pages of its
// metrics. All of it counts as user time because the page does not split it. ok
// is false if a page lacks it. The error wraps [ErrReset] after a restart.
func ProcessCPU(before, after []Metric) (cpu record.CPU, ok bool, err error) {
	a, okA := Sum(before, "process_cpu_seconds_total", nil)
	b, okB := Sum(after, "process_cpu_seconds_total", nil)
	if !okA || !okB {
		return record.CPU{}, false, nil
	}
	if b < a || start(before) != start(after) {
		return record.CPU{}, false, fmt.Errorf("CPU of the process: %w", ErrReset)
	}
	return record.CPU{UserS: b - a}, true, nil
}

// APIServer reads kube-apiserver's metrics through an API client, such as the
// one returned by rest.HTTPClientFor, at the API's base URL. ok is false if
// this user may not read them.
func APIServer(ctx context.Context, client *http.Client, base string) (page []Metric, ok bool, err error) {
	page, err = Fetch(ctx, client, strings.TrimSuffix(base, "/")+"/metrics")
	var refused *StatusError
	if errors.As(err, &refused) && refused.refused() {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("kube-apiserver: %w", err)
	}
	return page, true, nil
}
