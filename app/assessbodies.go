package app

import (
	"context"
	"io"
	"net/http"

	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/observe/signals"
)

// Metrics of proxies that have Istio's telemetry.
const (
	metricRequestBytes  = "istio_request_bytes"
	metricResponseBytes = "istio_response_bytes"
)

// bodies are bytes of requests and answers, and how many of each were counted.
type bodies struct{ request, requests, response, responses float64 }

func (b bodies) plus(o bodies) bodies {
	return bodies{b.request + o.request, b.requests + o.requests, b.response + o.response, b.responses + o.responses}
}

// sizes are the means; nil where nothing was counted.
func (b bodies) sizes() *assess.Sizes {
	s := assess.Sizes{Request: b.request / b.requests, Response: b.response / b.responses}
	if !(b.requests > 0 && b.responses > 0 && finite(s.Request) && finite(s.Response)) {
		return nil
	}
	return &s
}

// bodiesOf adds up what a proxy counted since it started.
func bodiesOf(metrics []observe.Metric) (b bodies) {
	for _, m := range metrics {
		if !(m.Value >= 0) { // NaN
			continue
		}
		switch m.Name {
		case metricRequestBytes + "_sum":
			b.request += m.Value
		case metricRequestBytes + "_count":
			b.requests += m.Value
		case metricResponseBytes + "_sum":
			b.response += m.Value
		case metricResponseBytes + "_count":
			b.responses += m.Value
		}
	}
	return b
}

// askBodies asks a proxy for bytes of bodies. One without Istio's telemetry counts none.
func askBodies(ctx context.Context, client *http.Client) (b bodies) {
	_ = getLively(ctx, client, silence, "/stats/prometheus?usedonly&filter=istio_(request|response)_bytes", func(in io.Reader) error { // then sizes are unknown
		text, err := io.ReadAll(io.LimitReader(in, signals.MaxPage))
		if err != nil {
			return err
		}
		metrics, err := observe.ParsePrometheus(text)
		b = bodiesOf(metrics)
		return err
	})
	return b
}
