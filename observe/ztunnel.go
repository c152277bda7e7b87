package observe

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"time"
)

// ZtunnelAdmin reads the statistics of a ztunnel, in the Prometheus text format on
// port 15020 of its pod. They say neither when it started nor, but for the version of
// Istio, how it is configured.
type ZtunnelAdmin struct {
	HTTPClient *http.Client // nil: http.DefaultClient
	BaseURL    string       // "" is http://127.0.0.1:15020
}

// ztunnelBuild is the series that names the Istio that a ztunnel was released with.
const ztunnelBuild = "istio_build"

// Version is that of the Istio that the ztunnel says it belongs to.
func (z ZtunnelAdmin) Version(ctx context.Context) (string, error) {
	metrics, err := z.page().metrics(ctx)
	if err != nil {
		return "", err
	}
	for _, m := range metrics {
		if m.Name == ztunnelBuild {
			return m.Labels["tag"], nil
		}
	}
	return "", errors.New("ztunnel: the page of metrics has no " + ztunnelBuild)
}

// Stats reads the series whose names with labels, as [Metric.Key] spells them,
// match filter, a regular expression ("" is all).
func (z ZtunnelAdmin) Stats(ctx context.Context, filter string) (ProxyStats, error) {
	return z.page().stats(ctx, filter, func(metrics []Metric, taken time.Time, wanted *regexp.Regexp) (ProxyStats, error) {
		stats := seriesOf(metrics, wanted)
		stats.Taken, stats.NoUptime = taken, true
		return stats, nil
	})
}

// Gauges is Stats: the page is always whole.
func (z ZtunnelAdmin) Gauges(ctx context.Context, filter string) (map[string]float64, error) {
	stats, err := z.Stats(ctx, filter)
	return stats.Gauges, err
}

// Config is nil: the port has nothing of it.
func (ZtunnelAdmin) Config(context.Context) ([]byte, error) { return nil, nil }

func (z ZtunnelAdmin) page() adminPage {
	return adminPage{"ztunnel", z.HTTPClient, cmp.Or(z.BaseURL, "http://127.0.0.1:15020")}
}

// Get reads a path of the port.
func (z ZtunnelAdmin) Get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	return z.page().get(ctx, path, query)
}
