package generate

import (
	"strings"

	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/drive/graph"
)

// passthrough are the clusters of what the mesh does not know.
var passthrough = map[string]bool{"PassthroughCluster": true, "BlackHoleCluster": true}

// AddCounters adds what a sidecar's counters say ([scope.ReadCalls]): which of
// its outbound clusters were called, whether it served, and whether it called
// what the mesh does not know. They count since the proxy started, without
// times, and for endpoints that are still there.
func (o *Observations) AddCounters(w Workload, calls map[string]int64) error {
	o.tcp |= Counters
	s, err := o.watch(w, Counters, Span{})
	if err != nil {
		return err
	}
	s.counted++
	for name, n := range calls {
		if passthrough[name] {
			if err := o.Left(w, others, n, Counters, Span{}); err != nil {
				return err
			}
			continue
		}
		direction, _, _, host, ok := scope.SplitCluster(name)
		if !ok || n == 0 {
			continue
		}
		var err error
		if direction == "outbound" {
			err = o.Call(Edge{From: w, Host: host, Count: n, Sources: Counters})
		} else {
			err = o.Served(w, n, Counters, Span{})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// AddGraph adds a service graph whose services run in one namespace, each a
// workload of its name behind a Service of its name. What is declared is kept
// whether or not anybody saw it.
func (o *Observations) AddGraph(g graph.Graph, namespace, domain string) error {
	o.tcp |= Declared // it says all there is
	for _, s := range g.Services {
		from := Workload{namespace, s.Name}
		if err := o.Served(from, 1, Declared, Span{}); err != nil {
			return err
		}
		for _, c := range s.Calls {
			if err := o.Call(Edge{From: from, Host: serviceHost(c.To, namespace, domain), Namespace: namespace, Sources: Declared}); err != nil {
				return err
			}
		}
	}
	return nil
}

// serviceHost is the name by which the mesh knows a Service.
func serviceHost(name, namespace, domain string) string {
	return name + "." + namespace + ".svc." + domain
}

// The metrics of proxies that say who calls whom
// (https://istio.io/latest/docs/reference/config/metrics/).
const (
	MetricRequests    = "istio_requests_total"
	MetricConnections = "istio_tcp_connections_opened_total"
)

// unknown is what istio's labels say where they say nothing.
func unknown(label string) bool { return label == "" || label == "unknown" }

// AddMetric adds a series of one of the metrics: its labels and how many
// requests or connections it counts within the time, which is empty if nobody knows
// how far back the query looked. Series without a
// source's workload are those of callers without a proxy, which no Sidecar
// concerns.
func (o *Observations) AddMetric(metric string, labels map[string]string, count float64, at Span) error {
	if metric == MetricConnections {
		o.tcp |= Metrics
	}
	if !(count > 0) { // also what is no number
		return nil
	}
	o.undated = o.undated || at.First.IsZero()
	n := int64(min(max(count, 1), 1<<53))
	// Each request stands there once by each proxy on its way.
	if to := (Workload{labels["destination_workload_namespace"], labels["destination_workload"]}); labels["reporter"] == "destination" && !unknown(to.Name) && !unknown(to.Namespace) {
		if err := o.Served(to, n, Metrics, at); err != nil {
			return err
		}
	}
	from := Workload{labels["source_workload_namespace"], labels["source_workload"]}
	if unknown(from.Namespace) {
		return nil
	}
	if unknown(from.Name) {
		from.Name = ""
	}
	if _, has := labels["destination_service"]; !has { // taken away, to have fewer series
		if labels["reporter"] != "source" {
			return nil
		}
		return o.Strange(from, "", Metrics, at)
	}
	host, namespace := labels["destination_service"], labels["destination_service_namespace"]
	if unknown(namespace) {
		namespace = ""
	}
	name := labels["destination_service_name"]
	switch {
	case passthrough[name]:
		return o.Left(from, stripPort(host), n, Metrics, at)
	case unknown(host):
		return o.Left(from, others, n, Metrics, at)
	}
	e := Edge{From: from, Host: stripPort(host), Namespace: namespace, Count: n, Sources: Metrics, Span: at}
	if labels["reporter"] == "source" {
		return o.Call(e)
	}
	e.Count = 0 // the caller's own proxy counts it
	return o.Heard(e)
}

// stripPort takes a port off a host or an authority.
func stripPort(host string) string {
	if strings.HasPrefix(host, "[") { // an IPv6 address
		inner, _, _ := strings.Cut(host[1:], "]")
		return inner
	}
	if before, _, found := strings.Cut(host, ":"); found && strings.Count(host, ":") == 1 {
		return before
	}
	return host
}
