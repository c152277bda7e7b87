package observe

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// Limits of responses, in bytes. A page of metrics of a large cluster has several
// megabytes.
const (
	maxPage    = 64 << 20
	maxProfile = 64 << 20
)

// fetch reads a response of at most limit bytes; what names it in errors. A status
// other than 200 is a [StatusError].
func fetch(ctx context.Context, client *http.Client, method, url, what string, limit int64) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	request.Header.Set("Accept", "text/plain;version=0.0.4, */*;q=0.5") // the only format for metrics
	answer, err := cmp.Or(client, http.DefaultClient).Do(request)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	defer answer.Body.Close()
	// A truncated response would be broken JSON, so fail instead.
	data, err := io.ReadAll(io.LimitReader(answer.Body, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("the answer is larger than %d bytes, more than is read", limit)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if answer.StatusCode != http.StatusOK {
		return nil, &StatusError{answer.StatusCode, fmt.Sprintf("%s: %s: %.200s", what, answer.Status, strings.TrimSpace(string(data)))}
	}
	return data, nil
}

// StatusError is an unsuccessful HTTP response.
type StatusError struct {
	Code int
	Text string
}

func (e *StatusError) Error() string { return e.Text }

// refused reports whether the server denies this user access, or has no such path.
func (e *StatusError) refused() bool {
	return e.Code == http.StatusUnauthorized || e.Code == http.StatusForbidden || e.Code == http.StatusNotFound
}

// adminPage is the address of a proxy's admin interface; what names it in errors.
type adminPage struct {
	what   string
	client *http.Client // nil: http.DefaultClient
	base   string       // its URL
}

// json reads a path that returns JSON.
func (p adminPage) json(ctx context.Context, path string) ([]byte, error) {
	body, err := p.Get(ctx, path, nil)
	if err == nil && !json.Valid(body) {
		err = fmt.Errorf("%s: %s answered no JSON: %.100q", p.what, path, body)
	}
	return body, err
}

// Get reads a path.
func (p adminPage) Get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	target := strings.TrimSuffix(p.base, "/") + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	return fetch(ctx, p.client, http.MethodGet, target, p.what+": "+path, maxAnswer)
}

// PageAdmin reads the admin interface of a proxy that exposes its statistics as metrics
// in the Prometheus text format.
type PageAdmin struct {
	adminPage
	version func([]Metric) (string, error)
	// sort converts the wanted series of a page that was read at a time into
	// statistics.
	sort   func(page []Metric, taken time.Time, wanted *regexp.Regexp) (ProxyStats, error)
	config string // the path of its configuration; "" if it has none
}

// Version returns the proxy's version.
func (p PageAdmin) Version(ctx context.Context) (string, error) {
	metrics, err := p.metrics(ctx)
	if err != nil {
		return "", err
	}
	return p.version(metrics)
}

func (p PageAdmin) metrics(ctx context.Context) ([]Metric, error) {
	body, err := p.Get(ctx, "/metrics", nil)
	if err != nil {
		return nil, err
	}
	metrics, err := ParsePrometheus(body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.what, err)
	}
	return metrics, nil
}

// Stats reads the series whose names with labels, as formatted by [Metric.Key], match
// filter, a regular expression ("" matches all).
func (p PageAdmin) Stats(ctx context.Context, filter string) (ProxyStats, error) {
	wanted, err := regexp.Compile(filter)
	if err != nil {
		return ProxyStats{}, fmt.Errorf("%s: filter: %w", p.what, err)
	}
	taken := time.Now()
	metrics, err := p.metrics(ctx)
	if err != nil {
		return ProxyStats{}, err
	}
	return p.sort(metrics, taken, wanted)
}

// Gauges is like Stats, because the page is always read in full.
func (p PageAdmin) Gauges(ctx context.Context, filter string) (map[string]float64, error) {
	stats, err := p.Stats(ctx, filter)
	return stats.Gauges, err
}

// Config reads the configuration as JSON; nil if the proxy does not expose it.
func (p PageAdmin) Config(ctx context.Context) ([]byte, error) {
	if p.config == "" {
		return nil, nil
	}
	return p.json(ctx, p.config)
}
