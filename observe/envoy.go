package observe

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// EnvoyAdmin reads an Envoy's admin interface. In a pod it listens on
// 127.0.0.1:15000, so the HTTPClient's transport has to dial through a port
// forward or run in the pod.
type EnvoyAdmin struct {
	HTTPClient *http.Client // nil: http.DefaultClient
	BaseURL    string       // "" is http://127.0.0.1:15000
}

// EnvoyInfo is what /server_info says.
type EnvoyInfo struct {
	Version string        // "1.40.0"
	Build   string        // the whole version string: commit/version/status/type/ssl
	State   string        // LIVE, DRAINING...
	Uptime  time.Duration // of the process
	// Concurrency is the number of worker threads it was told to run.
	Concurrency int
	Node        string // node id
}

// maxEnvoyAnswer bounds an answer; a config dump of thousands of clusters
// stays well below.
const maxEnvoyAnswer = 256 << 20

// Stats reads the counters and gauges whose names match filter, a regular
// expression (RE2, found anywhere in the name; "" is all), and the uptime.
func (e EnvoyAdmin) Stats(ctx context.Context, filter string) (ProxyStats, error) {
	// The gauge server.uptime is refreshed only when Envoy flushes its
	// statistics, so the process' age comes from /server_info.
	stats := ProxyStats{Taken: time.Now()}
	info, err := e.ServerInfo(ctx)
	if err != nil {
		return ProxyStats{}, err
	}
	stats.Uptime = info.Uptime
	for _, kind := range []struct {
		name string
		into *map[string]float64
	}{{"Counters", &stats.Counters}, {"Gauges", &stats.Gauges}} {
		query := url.Values{"format": {"json"}, "type": {kind.name}}
		if filter != "" {
			query.Set("filter", filter)
		}
		body, err := e.Get(ctx, "/stats", query)
		if err != nil {
			return ProxyStats{}, err
		}
		if *kind.into, err = ParseEnvoyStatsJSON(body); err != nil {
			return ProxyStats{}, err
		}
	}
	return stats, nil
}

// Version is what /server_info says of it.
func (e EnvoyAdmin) Version(ctx context.Context) (string, error) {
	info, err := e.ServerInfo(ctx)
	return info.Version, err
}

// Gauges reads gauges in one request: where that is often, what else Stats asks
// for would cost more than it.
func (e EnvoyAdmin) Gauges(ctx context.Context, filter string) (map[string]float64, error) {
	text, err := e.Get(ctx, "/stats", url.Values{"format": {"json"}, "type": {"Gauges"}, "filter": {filter}})
	if err != nil {
		return nil, err
	}
	return ParseEnvoyStatsJSON(text)
}

// Config reads /config_dump.
func (e EnvoyAdmin) Config(ctx context.Context) ([]byte, error) { return e.ConfigDump(ctx) }

// ServerInfo reads /server_info.
func (e EnvoyAdmin) ServerInfo(ctx context.Context) (EnvoyInfo, error) {
	body, err := e.Get(ctx, "/server_info", nil)
	if err != nil {
		return EnvoyInfo{}, err
	}
	return ParseEnvoyServerInfo(body)
}

// ConfigDump reads /config_dump as it is.
func (e EnvoyAdmin) ConfigDump(ctx context.Context) (json.RawMessage, error) {
	body, err := e.Get(ctx, "/config_dump", nil)
	if err != nil {
		return nil, err
	}
	if !json.Valid(body) {
		return nil, fmt.Errorf("envoy admin: /config_dump answered no JSON: %.100q", body)
	}
	return body, nil
}

// Get reads a path of the admin interface.
func (e EnvoyAdmin) Get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	return adminPage{"envoy admin", e.HTTPClient, cmp.Or(e.BaseURL, "http://127.0.0.1:15000"), maxEnvoyAnswer}.get(ctx, path, query)
}

// adminPage is where a proxy's admin interface is and how much of an answer is
// read; what names it in errors.
type adminPage struct {
	what   string
	client *http.Client // nil: http.DefaultClient
	base   string       // its URL
	limit  int64        // bytes
}

// get reads a path. A status other than 200 is an error with the answer's
// beginning.
func (p adminPage) get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	target := strings.TrimSuffix(p.base, "/") + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.what, err)
	}
	resp, err := cmp.Or(p.client, http.DefaultClient).Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.what, err)
	}
	defer resp.Body.Close()
	body, err := readUpTo(resp.Body, p.limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", p.what, path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s: %s: %.200s", p.what, path, resp.Status, strings.TrimSpace(string(body)))
	}
	return body, nil
}

// readUpTo reads all, and fails if that is more than limit bytes: half of an
// answer would only be broken JSON.
func readUpTo(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("the answer is larger than %d bytes, more than is read", limit)
	}
	return data, err
}
