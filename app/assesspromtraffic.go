package app

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/advise/scope/generate"
	"github.com/meshtrial/meshtrial/observe/signals"
)

// Matchers of requests to hosts that the mesh does not know, which counters do not count either.
const (
	matchKnown   = `destination_service_name!~"PassthroughCluster|BlackHoleCluster"`
	matchUnknown = `destination_service_name=~"PassthroughCluster|BlackHoleCluster"`
)

// requests reads how many requests passed each proxy.
func (p *promRead) requests(ctx context.Context) {
	if p.present(generate.MetricRequests, generate.MetricConnections) == "" || len(p.proxies) == 0 {
		return
	}
	called := p.byPod(ctx, generate.MetricRequests, `reporter="source",`+matchKnown)
	served := p.byPod(ctx, generate.MetricRequests, `reporter="destination"`)
	through := p.byPod(ctx, generate.MetricRequests, `reporter="waypoint"`)
	opened := p.byPod(ctx, generate.MetricConnections, "")
	strange := p.byPod(ctx, generate.MetricRequests, `reporter="source",`+matchUnknown)
	scraped := p.versions(ctx)
	if p.err != nil {
		return
	}
	if p.podless[generate.MetricRequests] {
		p.unknown(assess.NoPodLabel.Of())
		return
	}
	if window, _ := p.over(generate.MetricRequests); p.has[generate.MetricRequests] && len(called)+len(served)+len(through)+len(strange) == 0 {
		p.once(assess.NoRates.Of(generate.MetricRequests, window.Seconds()))
		return
	}
	missing := missingReporter(len(called)+len(strange), len(served))
	var live, prom float64
	both, unscraped, sidecars, passed := 0, 0, 0, 0
	for i := range p.proxies {
		x := &p.proxies[i]
		pod := podRef{x.Namespace, x.Pod}
		out, calls := called[pod]
		in, serves := served[pod]
		passing, passes := through[pod]
		in += passing
		connections, opens := opened[pod]
		_, seen := scraped[pod]
		if x.Kind == assess.Istiod || x.Kind == assess.Ztunnel { // which count connections alone
			continue
		}
		if x.Kind == assess.Sidecar {
			sidecars++
		}
		switch {
		case x.Kind == assess.Sidecar && missing != "", x.Kind == assess.Gateway && missing == "source":
			p.once(assess.NoReporter.Of(missing))
		case !seen && !calls && !serves && !passes && !opens:
			if x.Kind == assess.Sidecar && x.Called == nil {
				unscraped++
			}
		case x.Called == nil:
			x.Called, x.Served, x.Connections, x.RequestsBy = &out, &in, &connections, assess.ByPrometheus
			if strange[pod] > 0 {
				passed++
			}
		case x.RequestsBy == assess.ByItself:
			both, live, prom = both+1, live+*x.Called, prom+out
		}
	}
	if unscraped > 0 {
		p.unknown(assess.Unscraped.Of(unscraped, sidecars))
	}
	if passed > 0 && p.strange == 0 {
		p.unknown(assess.Passthrough.Of(passed))
	}
	if differ(live, prom, 1) {
		p.unknown(assess.RequestsDiffer.Of(both, live, prom))
	}
	if p.e.TrafficS == 0 {
		window, _ := p.over(p.present(generate.MetricRequests, generate.MetricConnections))
		p.e.TrafficS = window.Seconds()
	}
}

// missingReporter names the side of whose proxies there are no series, if there are some of the other: relabelling
// that drops them would turn requests into none.
func missingReporter(called, served int) string {
	switch {
	case called == 0 && served > 0:
		return "source"
	case called > 0 && served == 0:
		return "destination"
	}
	return ""
}

// edgeLabels name who called what.
const edgeLabels = "source_workload_namespace, source_workload, destination_service, destination_service_name, destination_service_namespace"

// calls reads who calls whom: by the caller's own proxy, or else by the called one, or else by a waypoint. What the
// counters of all sidecars told is kept.
func (p *promRead) calls(ctx context.Context) {
	type edge struct {
		from generate.Workload
		host string
		tcp  bool
	}
	reporters := []string{"source", "destination", "waypoint"}
	calls, protocols := map[edge]*[3]float64{}, map[string]float64{}
	for _, metric := range []string{generate.MetricRequests, generate.MetricConnections} {
		for _, s := range p.rate(ctx, metric, matchKnown, "reporter, request_protocol, "+edgeLabels) {
			l, by := s.Labels, slices.Index(reporters, s.Labels["reporter"])
			if by < 0 || !finite(s.Value) || s.Value <= 0 {
				continue
			}
			if protocol := l["request_protocol"]; by == 0 && metric == generate.MetricRequests && protocol != "" {
				protocols[protocol] += s.Value
			}
			e := edge{generate.Workload{Namespace: l["source_workload_namespace"], Name: l["source_workload"]}, l["destination_service"], metric == generate.MetricConnections}
			if isUnknown(e.from.Name) || isUnknown(e.host) {
				continue
			}
			if calls[e] == nil {
				calls[e] = new([3]float64)
			}
			calls[e][by] += s.Value
		}
	}
	if len(protocols) > 0 {
		p.e.Protocols = protocols
	}
	if p.err != nil || len(calls) == 0 || p.callsKnown() {
		return
	}
	p.e.Calls = nil
	for e, by := range calls {
		_, routed := p.inv.Calls(e.host, 0)
		p.e.Calls = append(p.e.Calls, assess.Call{From: e.from, Host: e.host, PerS: cmp.Or(by[0], by[1], by[2]), TCP: e.tcp, Routed: routed && !e.tcp})
	}
	p.sortCalls()
}

// callsKnown reports whether who calls whom is known from the counters of all sidecars, and nobody else calls.
func (p *promRead) callsKnown() bool {
	return p.e.Enrolled == 0 && len(p.e.Calls) > 0 && !slices.ContainsFunc(p.proxies, func(x assess.Proxy) bool {
		return x.Kind == assess.Sidecar && (x.Called == nil || x.RequestsBy != assess.ByItself)
	})
}

// isUnknown reports whether a label has no value, as Istio writes that.
func isUnknown(label string) bool { return label == "" || label == "unknown" }

// sizes reads mean sizes of bodies, and how many connections of TCP are open.
func (p *promRead) sizes(ctx context.Context) {
	only := func(samples []signals.Sample) float64 {
		if len(samples) != 1 || !finite(samples[0].Value) {
			return 0
		}
		return samples[0].Value
	}
	mean := func(metric string) float64 {
		p.has[metric+"_count"] = p.has[metric+"_sum"]
		for _, reporter := range []string{"source", "destination", "waypoint"} {
			bytes := only(p.rate(ctx, metric+"_sum", `reporter="`+reporter+`"`, ""))
			if n := only(p.rate(ctx, metric+"_count", `reporter="`+reporter+`"`, "")); n > 0 {
				return bytes / n
			}
		}
		return math.NaN()
	}
	request, response := mean(metricRequestBytes), mean(metricResponseBytes)
	if p.err == nil && finite(request) && finite(response) && p.e.Sizes == nil {
		p.e.Sizes = &assess.Sizes{Request: request, Response: response}
	}
	if !p.has[generate.MetricConnections] || !p.has[metricClosed] { // without the closed ones all would be open
		return
	}
	_, end := p.over(generate.MetricConnections)
	opened := p.summed(ctx, "%s", generate.MetricConnections, `reporter="source"`, "", end)
	closed := p.summed(ctx, "%s", metricClosed, `reporter="source"`, "", end)
	if p.err != nil || len(opened) != 1 || p.e.Open != nil {
		return
	}
	if open := opened[0].Value - only(closed); finite(open) && open >= 0 {
		p.e.Open = &open
	}
}
