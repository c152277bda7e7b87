package observe

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"time"
)

// EnvoyAdmin reads an Envoy's admin interface. In a pod it listens on
// 127.0.0.1:15000, so the HTTPClient's transport must dial through a port
// forward or run in the pod.
type EnvoyAdmin struct {
	HTTPClient *http.Client // nil: http.DefaultClient
	BaseURL    string       // "" is http://127.0.0.1:15000
}

// Stats reads the counters and gauges whose names match filter, an unanchored
// RE2 expression ("" matches all), and the uptime.
func (e EnvoyAdmin) Stats(ctx context.Context, filter string) (ProxyStats, error) {
	// Envoy refreshes the gauge server.uptime only when it flushes its
	// statistics, so the process's age comes from /server_info.
	stats := ProxyStats{Taken: time.Now()}
	info, err := e.serverInfo(ctx)
	if err == nil {
		stats.Uptime = info.uptime
		stats.Counters, err = e.stats(ctx, "Counters", filter)
	}
	if err == nil {
		stats.Gauges, err = e.stats(ctx, "Gauges", filter)
	}
	return stats, err
}

// stats reads the statistics of one type.
func (e EnvoyAdmin) stats(ctx context.Context, kind, filter string) (map[string]float64, error) {
	query := url.Values{"format": {"json"}, "type": {kind}}
	if filter != "" {
		query.Set("filter", filter)
	}
	body, err := e.Get(ctx, "/stats", query)
	if err != nil {
		return nil, err
	}
	return ParseEnvoyStatsJSON(body)
}

// Version returns the version reported by /server_info.
func (e EnvoyAdmin) Version(ctx context.Context) (string, error) {
	info, err := e.serverInfo(ctx)
	return info.version, err
}

// Gauges reads gauges in a single request. Frequent callers should not pay for
// the rest of what Stats reads.
func (e EnvoyAdmin) Gauges(ctx context.Context, filter string) (map[string]float64, error) {
	return e.stats(ctx, "Gauges", filter)
}

// Config returns the unmodified response of /config_dump.
func (e EnvoyAdmin) Config(ctx context.Context) ([]byte, error) {
	return e.page().json(ctx, "/config_dump")
}

func (e EnvoyAdmin) serverInfo(ctx context.Context) (envoyInfo, error) {
	body, err := e.Get(ctx, "/server_info", nil)
	if err != nil {
		return envoyInfo{}, err
	}
	return parseEnvoyServerInfo(body)
}

// Get reads a path of the admin interface.
func (e EnvoyAdmin) Get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	return e.page().Get(ctx, path, query)
}

func (e EnvoyAdmin) page() adminPage {
	return adminPage{"envoy admin", e.HTTPClient, cmp.Or(e.BaseURL, "http://127.0.0.1:15000")}
}
