package observe

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// LinkerdAdmin reads the admin interface of a Linkerd proxy. In a pod it
// listens on port 4191; unlike Envoy's it knows no configuration and no
// certificates, only metrics in the Prometheus text format, its environment
// and its log level.
type LinkerdAdmin struct {
	HTTPClient *http.Client // nil: http.DefaultClient
	BaseURL    string       // "" is http://127.0.0.1:4191
}

// Names on the proxy's page of metrics.
const (
	linkerdStart = "process_start_time_seconds"
	linkerdBuild = "proxy_build_info"
)

// Version is the proxy's release, or where it is none, the start of the commit
// that it was built from.
func (l LinkerdAdmin) Version(ctx context.Context) (string, error) {
	metrics, err := l.page().metrics(ctx)
	if err != nil {
		return "", err
	}
	return LinkerdVersion(metrics)
}

// noRelease is the version of proxies that were built without one.
const noRelease = "0.0.0-dev"

// LinkerdVersion finds the version on a page.
func LinkerdVersion(metrics []Metric) (string, error) {
	for _, m := range metrics {
		if m.Name != linkerdBuild {
			continue
		}
		version, sha := m.Labels["version"], m.Labels["git_sha"]
		if (version == "" || strings.HasPrefix(version, noRelease)) && sha != "" {
			return sha[:min(len(sha), 12)], nil
		}
		if version != "" {
			return version, nil
		}
	}
	return "", fmt.Errorf("linkerd admin: the page of metrics has no %s with a version", linkerdBuild)
}

// Stats reads the series whose names with labels, as [Metric.Key] spells them,
// match filter, a regular expression ("" is all).
func (l LinkerdAdmin) Stats(ctx context.Context, filter string) (ProxyStats, error) {
	return l.page().stats(ctx, filter, LinkerdStats)
}

// Gauges is Stats: the page is always whole.
func (l LinkerdAdmin) Gauges(ctx context.Context, filter string) (map[string]float64, error) {
	stats, err := l.Stats(ctx, filter)
	return stats.Gauges, err
}

// LinkerdStats sorts the series of a page that was read at a time.
func LinkerdStats(metrics []Metric, taken time.Time, wanted *regexp.Regexp) (ProxyStats, error) {
	start, found := Sum(metrics, linkerdStart, nil)
	if !found {
		return ProxyStats{}, fmt.Errorf("linkerd admin: the page of metrics has no %s", linkerdStart)
	}
	stats := seriesOf(metrics, wanted)
	stats.Taken, stats.Uptime = taken, taken.Sub(time.Unix(0, int64(start*1e9))).Truncate(time.Second)
	return stats, nil
}

// Config reads the proxy's environment, which is all of its configuration
// that it tells: a JSON object of names and values.
func (l LinkerdAdmin) Config(ctx context.Context) ([]byte, error) {
	body, err := l.Get(ctx, "/env.json", nil)
	if err == nil && !json.Valid(body) {
		err = fmt.Errorf("linkerd admin: /env.json answered no JSON: %.100q", body)
	}
	return body, err
}

func (l LinkerdAdmin) page() adminPage {
	return adminPage{"linkerd admin", l.HTTPClient, cmp.Or(l.BaseURL, "http://127.0.0.1:4191")}
}

// Get reads a path of the admin interface.
func (l LinkerdAdmin) Get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	return l.page().get(ctx, path, query)
}
