package signals

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// maxAnswer is the maximum size of a Prometheus server's response, in bytes.
const maxAnswer = 64 << 20

// Remote is a Prometheus server, or any server with its HTTP API
// (https://prometheus.io/docs/prometheus/latest/querying/api/), as a Source.
type Remote struct {
	base   url.URL
	user   *url.Userinfo
	header http.Header
	client *http.Client
	whole  bool // see Whole
}

var _ Source = (*Remote)(nil)

// NewRemote returns the server at a URL such as http://prometheus:9090 or
// https://user:password@host/prometheus. The header is sent with every request.
func NewRemote(address string, header http.Header) (*Remote, error) {
	u, err := url.Parse(address)
	hint := "give the address of a Prometheus server, such as http://prometheus.istio-system:9090"
	switch {
	case err != nil:
		// The error of url.Parse contains the address, which may include a password.
		return nil, errs.WithHint(errs.Usage("the address of Prometheus is not a URL"), "%s", hint)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errs.WithHint(errs.Usage("the address of Prometheus must begin with http:// or https://"), "%s", hint)
	case u.Host == "":
		return nil, errs.WithHint(errs.Usage("the address of Prometheus names no host"), "%s", hint)
	}
	r := &Remote{base: *u, user: u.User, header: header.Clone(), client: &http.Client{Timeout: queryTimeout + 10*time.Second, CheckRedirect: stayHere}}
	r.base.User, r.base.RawQuery, r.base.Fragment = nil, "", ""
	r.base.Path = strings.TrimSuffix(u.Path, "/")
	return r, nil
}

// late describes a response timeout in words. It returns other errors, including
// cancellation by the caller, unchanged.
func (r *Remote) late(ctx context.Context, err error) error {
	var timed interface{ Timeout() bool }
	if ctx.Err() != nil || !errors.As(err, &timed) || !timed.Timeout() {
		return err
	}
	return errs.WithHint(fmt.Errorf("no whole answer within %v", r.client.Timeout),
		"is the server overloaded, or something else than Prometheus?")
}

// Whole rejects responses that the server itself marks as incomplete, such as when one
// of several stores did not respond.
func (r *Remote) Whole() { r.whole = true }

// maxRedirects is the maximum number of redirects per request.
const maxRedirects = 5

// stayHere refuses redirects to another server, or from TLS to plain text: the headers
// may contain keys, and net/http would forward all of them except Authorization and
// Cookie.
func stayHere(next *http.Request, before []*http.Request) error {
	first := before[0].URL
	secured := first.Scheme == "http" && next.URL.Scheme == "https" && first.Hostname() == next.URL.Hostname()
	switch {
	case len(before) > maxRedirects:
		return fmt.Errorf("more than %d redirects", maxRedirects)
	case secured || first.Scheme == next.URL.Scheme && first.Host == next.URL.Host:
		return nil
	}
	return errs.WithHint(fmt.Errorf("the server sends on to %s", next.URL.Host), "name that server, if it is the one you mean: %s://%s", next.URL.Scheme, next.URL.Host)
}

// String names the server, without a password.
func (r *Remote) String() string { return "Prometheus " + r.base.String() }

// Close closes idle connections.
func (r *Remote) Close() error {
	r.client.CloseIdleConnections()
	return nil
}

// Instant implements [Source].
func (r *Remote) Instant(ctx context.Context, expr string, at time.Time) ([]Sample, error) {
	data, err := r.ask(ctx, "query", url.Values{"query": {expr}, "time": {unixSeconds(at)}})
	var samples []Sample
	if err == nil {
		samples, _, err = parseInstant(data)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", r, expr, err)
	}
	return samples, nil
}

// Range implements [Source].
func (r *Remote) Range(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]Track, error) {
	data, err := r.ask(ctx, "query_range", url.Values{"query": {expr}, "start": {unixSeconds(from)}, "end": {unixSeconds(to)},
		"step": {strconv.FormatFloat(step.Seconds(), 'f', -1, 64)}})
	var tracks []Track
	if err == nil {
		tracks, err = parseRange(data)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", r, expr, err)
	}
	return tracks, nil
}

// Has implements [Source]. It requests only these names: a large server has tens of
// thousands.
func (r *Remote) Has(ctx context.Context, names []string, from, to time.Time) (map[string]bool, error) {
	data, err := r.ask(ctx, "label/__name__/values", url.Values{
		"match[]": {`{__name__=~"` + strings.Join(names, "|") + `"}`}, "start": {unixSeconds(from)}, "end": {unixSeconds(to)}})
	var found []string
	if err == nil {
		err = json.Unmarshal(data, &found)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: names of metrics: %w", r, err)
	}
	has := map[string]bool{}
	for _, name := range found {
		has[name] = true
	}
	return has, nil
}

// unixSeconds formats a moment for the API.
func unixSeconds(t time.Time) string {
	return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64)
}

// ask sends one request and returns the field data of the response.
func (r *Remote) ask(ctx context.Context, what string, values url.Values) (json.RawMessage, error) {
	target := r.base
	target.Path += "/api/v1/" + what
	method, body := http.MethodPost, io.Reader(strings.NewReader(values.Encode()))
	if strings.HasPrefix(what, "label/") { // supports only GET
		method, body, target.RawQuery = http.MethodGet, nil, values.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target.String(), body)
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, r.header)
	if body != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if r.user != nil {
		password, _ := r.user.Password()
		req.SetBasicAuth(r.user.Username(), password)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		var inner *url.Error
		if errors.As(err, &inner) {
			err = inner.Err // the rest repeats the expression
		}
		err = r.late(ctx, err)
		if errs.Hint(err) != "" {
			return nil, err
		}
		return nil, errs.WithHint(err, "does Prometheus listen at %s, and can this machine reach it?", r.base.String())
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, r.late(ctx, err)
	}
	if len(page) > maxAnswer {
		return nil, fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	data, partial, err := parseAnswer(page)
	if err == nil && r.whole {
		err = partial
	}
	if err != nil && resp.StatusCode != http.StatusOK && !errors.Is(err, errPrometheus) {
		hint := "is this the address of a Prometheus server? Its path comes before /api/v1"
		if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
			hint = "give a user and password in the URL, or a header with --prometheus-header"
		}
		return nil, errs.WithHint(fmt.Errorf("HTTP status %s", resp.Status), "%s", hint)
	}
	return data, err
}

// errPrometheus marks errors reported by Prometheus itself.
var errPrometheus = errors.New("Prometheus says")

// parseAnswer unwraps a response; partial is why it may be incomplete.
func parseAnswer(page []byte) (data json.RawMessage, partial, err error) {
	var answer struct {
		Status    string          `json:"status"`
		Warnings  []string        `json:"warnings"`
		Data      json.RawMessage `json:"data"`
		ErrorType string          `json:"errorType"`
		Error     string          `json:"error"`
	}
	if err := json.Unmarshal(page, &answer); err != nil {
		return nil, nil, errs.WithHint(fmt.Errorf("not an answer of Prometheus: %w (%.60q)", err, bytes.TrimSpace(page)),
			"is this the address of a Prometheus server?")
	}
	switch answer.Status {
	case "success":
		return answer.Data, incomplete(answer.Warnings), nil
	case "error":
		return nil, nil, fmt.Errorf("%w: %s: %s", errPrometheus, answer.ErrorType, answer.Error)
	}
	return nil, nil, fmt.Errorf("not an answer of Prometheus: status %q", answer.Status)
}

// incomplete returns an error about the missing data that a response's warnings report.
// PromQL warnings are about the expression rather than the data.
func incomplete(warnings []string) error {
	for _, w := range warnings {
		if !strings.HasPrefix(w, "PromQL ") {
			return errs.WithHint(fmt.Errorf("%w that its answer may not be whole: %.200q", errPrometheus, w), "ask again once all of its stores answer")
		}
	}
	return nil
}

// point is [seconds, "value"].
type point Point

func (p *point) UnmarshalJSON(text []byte) error {
	var pair []json.RawMessage
	if err := json.Unmarshal(text, &pair); err != nil {
		return err
	}
	if len(pair) != 2 {
		return fmt.Errorf("a point of %d parts, not 2", len(pair))
	}
	var seconds float64
	var value string
	if err := errors.Join(json.Unmarshal(pair[0], &seconds), json.Unmarshal(pair[1], &value)); err != nil {
		return err
	}
	v, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return fmt.Errorf("a value that is no number: %q", value)
	}
	*p = point{int64(seconds*1000 + 0.5), v}
	return nil
}

// ReadAnswer reads a saved response of Prometheus's HTTP API with one value per series.
// It also returns the time of the newest value; zero if there are none. It rejects a
// response marked as incomplete.
func ReadAnswer(page []byte) ([]Sample, time.Time, error) {
	data, partial, err := parseAnswer(page)
	if err == nil {
		err = partial
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	samples, newest, err := parseInstant(data)
	if err != nil || newest == 0 {
		return samples, time.Time{}, err
	}
	return samples, time.UnixMilli(newest), nil
}

// errNoNumbers is returned for series without numbers, such as native histograms.
var errNoNumbers = errors.New("result: a series without numbers, such as native histograms")

// resultSeries is a series of a result, with a value at a moment or several over time.
type resultSeries struct {
	Metric map[string]string `json:"metric"`
	Value  *point            `json:"value"`
	Values []point           `json:"values"`
}

func (s resultSeries) points() []point {
	if s.Value != nil {
		return append(s.Values, *s.Value)
	}
	return s.Values
}

// parseSeries reads the series of a result, which must be of a type.
func parseSeries(data json.RawMessage, want, what string) ([]resultSeries, error) {
	var typed struct {
		Type   string          `json:"resultType"`
		Result json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(data, &typed); err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	if typed.Type != want {
		return nil, fmt.Errorf("result: a %q, not %s", typed.Type, what)
	}
	var out []resultSeries
	if err := json.Unmarshal(typed.Result, &out); err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	if slices.ContainsFunc(out, func(s resultSeries) bool { return len(s.points()) == 0 }) {
		return nil, errNoNumbers
	}
	return out, nil
}

// parseInstant also returns the time of the newest value, in Unix milliseconds.
func parseInstant(data json.RawMessage) (samples []Sample, newest int64, err error) {
	vector, err := parseSeries(data, "vector", "a value a series")
	if err != nil {
		return nil, 0, err
	}
	samples = make([]Sample, 0, len(vector))
	for _, s := range vector {
		name := s.Metric[metricName]
		delete(s.Metric, metricName)
		p := s.points()[0]
		newest = max(newest, p.MS)
		samples = append(samples, Sample{Name: name, Labels: s.Metric, Value: p.Value})
	}
	return samples, newest, nil
}

func parseRange(data json.RawMessage) ([]Track, error) {
	matrix, err := parseSeries(data, "matrix", "series over time")
	if err != nil {
		return nil, err
	}
	out := make([]Track, 0, len(matrix))
	for _, s := range matrix {
		delete(s.Metric, metricName)
		t := Track{Labels: s.Metric}
		for _, p := range s.points() {
			t.Points = append(t.Points, Point(p))
		}
		out = append(out, t)
	}
	return out, nil
}
