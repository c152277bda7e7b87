package observe

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// Bounds of answers, in bytes. A page of metrics of a large cluster has some megabytes.
const (
	maxPage    = 64 << 20
	maxProfile = 64 << 20
)

// fetch reads an answer of at most limit bytes; what names it in errors. A status other
// than 200 is a [StatusError].
func fetch(ctx context.Context, client *http.Client, method, url, what string, limit int64) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	request.Header.Set("Accept", "text/plain;version=0.0.4, */*;q=0.5") // of metrics, no other format
	answer, err := cmp.Or(client, http.DefaultClient).Do(request)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	defer answer.Body.Close()
	// Half of an answer would only be broken JSON.
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

// StatusError is an HTTP answer that is no success.
type StatusError struct {
	Code int
	Text string
}

func (e *StatusError) Error() string { return e.Text }

// refused tells whether the server does not let this user ask, or knows no such path.
func (e *StatusError) refused() bool {
	return e.Code == http.StatusUnauthorized || e.Code == http.StatusForbidden || e.Code == http.StatusNotFound
}

// adminPage is where a proxy's admin interface is; what names it in errors.
type adminPage struct {
	what   string
	client *http.Client // nil: http.DefaultClient
	base   string       // its URL
}

// get reads a path.
func (p adminPage) get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	target := strings.TrimSuffix(p.base, "/") + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	return fetch(ctx, p.client, http.MethodGet, target, p.what+": "+path, maxAnswer)
}

// metrics reads the page of metrics, in the Prometheus text format.
func (p adminPage) metrics(ctx context.Context) ([]Metric, error) {
	body, err := p.get(ctx, "/metrics", nil)
	if err != nil {
		return nil, err
	}
	metrics, err := ParsePrometheus(body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.what, err)
	}
	return metrics, nil
}

// stats reads the page and has sort make statistics of the series that match filter.
func (p adminPage) stats(ctx context.Context, filter string, sort func([]Metric, time.Time, *regexp.Regexp) (ProxyStats, error)) (ProxyStats, error) {
	wanted, err := regexp.Compile(filter)
	if err != nil {
		return ProxyStats{}, fmt.Errorf("%s: filter: %w", p.what, err)
	}
	taken := time.Now()
	metrics, err := p.metrics(ctx)
	if err != nil {
		return ProxyStats{}, err
	}
	return sort(metrics, taken, wanted)
}
