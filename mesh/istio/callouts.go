package istio

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// callout is a filter that asks a service about each request. An AuthorizationPolicy with the action
// CUSTOM creates the same ext_authz filter, but its provider is in the configuration of the whole
// mesh, which a run leaves alone. For global rate limits Istio documents an EnvoyFilter.
type callout struct {
	filter string // of [study.Callouts]
	host   string // of the service
	// cluster is the name of the cluster for it.
	cluster  string
	failOpen bool
	timeout  string // in protobuf's JSON
}

const (
	authzType       = envoyTypes + "filters.http.ext_authz.v3.ExtAuthz"
	globalLimitType = envoyTypes + "filters.http.ratelimit.v3.RateLimit"
	// calloutTimeout is how long a proxy waits for an answer unless a cell says otherwise. Envoy's
	// defaults are 200 ms for ext_authz by gRPC and 20 ms for rate limits.
	calloutTimeout = "1s"
)

// calloutStats are the statistics of such filters.
var calloutStats = []string{
	`http\..*\.ext_authz\.meshtrial_[a-z-]+\.(ok|denied|error|failure_mode_allowed)`,
	`cluster\..*\.ratelimit\.meshtrial_[a-z-]+\.(ok|over_limit|error|failure_mode_allowed)`,
}

// newCallout returns a filter of the proxy in front of a workload that asks the sink.
func newCallout(w mesh.Workload, filter string) callout {
	return callout{filter: filter, host: hostIn(w.Namespace, mesh.SinkName),
		cluster: ourResources + filter + "." + w.Name, timeout: calloutTimeout}
}

// askedBy returns the filter that the factor callout sets.
func askedBy(w mesh.Workload) (callout, bool) {
	settings := study.ParseSettings(w.Set(study.FactorCallout))
	if settings["filter"] == "" {
		return callout{}, false
	}
	c := newCallout(w, settings["filter"])
	c.host = hostIn(w.Namespace, settings["to"])
	c.failOpen = settings["fail"] == study.FailOpen
	if t := settings["timeout"]; t != "" {
		c.timeout = seconds(t)
	}
	return c, true
}

// patches returns the patches that give the inbound chain of a name the filter, or all chains if that
// is "".
func (c callout) patches(chain string) []map[string]any {
	return []map[string]any{c.addCluster(), beforeRouter(chain, map[string]any{"name": ourFilters + c.filter, "typed_config": c.config()})}
}

// addCluster adds the cluster of the service. The context is also that of a waypoint's clusters.
func (c callout) addCluster() map[string]any {
	cluster := dnsCluster(c.cluster, c.host, c.endpoint().Port)
	if c.filter != study.CalloutAuthzHTTP {
		speakHTTP2(cluster)
	}
	patch := addCluster(cluster)
	patch["match"] = map[string]any{"context": "SIDECAR_INBOUND"}
	return patch
}

// endpoint returns where the service answers.
func (c callout) endpoint() protocol.Endpoint {
	return protocol.Of(study.CalloutProtocol(c.filter)).Plain
}

// config returns the filter's configuration. See envoy.extensions.filters.http, ext_authz.v3.ExtAuthz
// and ratelimit.v3.RateLimit.
func (c callout) config() map[string]any {
	grpc := map[string]any{"envoy_grpc": map[string]any{"cluster_name": c.cluster}}
	switch c.filter {
	case study.CalloutAuthzHTTP:
		out := typed(authzType, "http_service", map[string]any{"server_uri": map[string]any{
			"uri": fmt.Sprintf("http://%s:%d", c.host, c.endpoint().Port), "cluster": c.cluster, "timeout": c.timeout}})
		out["stat_prefix"], out["failure_mode_allow"] = statPrefix(c.filter), c.failOpen
		return out
	case study.CalloutAuthzGRPC:
		grpc["timeout"] = c.timeout
		out := typed(authzType, "grpc_service", grpc)
		out["stat_prefix"], out["failure_mode_allow"], out["transport_api_version"] = statPrefix(c.filter), c.failOpen, "V3"
		return out
	}
	out := typed(globalLimitType, "rate_limit_service", map[string]any{"grpc_service": grpc, "transport_api_version": "V3"})
	out["domain"], out["timeout"], out["failure_mode_deny"], out["stat_prefix"] = "meshtrial", c.timeout, !c.failOpen, statPrefix(c.filter)
	out["rate_limits"] = []any{map[string]any{"actions": []any{map[string]any{"generic_key": map[string]any{"descriptor_value": "meshtrial"}}}}}
	return out
}

// askingWaypoint returns the objects by which a waypoint asks about requests to a workload's Service.
func askingWaypoint(w mesh.Workload) []*unstructured.Unstructured {
	var patches []map[string]any
	parts, _ := dataplane.Parts(w.Set(dataplane.FactorFilters)) // levels of a plan are valid
	for _, p := range parts {
		c := newCallout(w, p.Kind)
		patches = append(patches, c.addCluster())
		for _, e := range protocol.Endpoints() {
			if !e.TLS {
				patches = append(patches, c.patches(waypointChain(hostIn(w.Namespace, w.Name), e.Port))[1])
			}
		}
	}
	if len(patches) == 0 {
		return nil
	}
	o := envoyFilter(w, patches...)
	spec := o.Object["spec"].(map[string]any) // set by envoyFilter
	delete(spec, "workloadSelector")
	spec["targetRefs"] = []any{map[string]any{"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": waypointName}}
	return []*unstructured.Unstructured{o}
}

// waypointChain returns the name of the chain of a waypoint's listener that handles requests to a
// port of a host.
func waypointChain(host string, port int) string {
	return fmt.Sprintf("inbound-vip|%d|http|%s", port, host)
}

// waypointFilters checks that the waypoint has exactly the filters that the cell names for requests
// to the server's Service, and that they counted the requests.
func waypointFilters(e mesh.Evidence, p *mesh.Passed) []record.Check {
	const name = "waypoint-filters"
	want, err := dataplane.Parts(e.Cell[dataplane.FactorFilters])
	if err != nil {
		return []record.Check{{Name: name, Detail: err.Error()}}
	}
	if len(want) == 0 && (!e.FiltersVary || e.Endpoint.Opaque) { // a chain for connections has no such filters
		return nil
	}
	d, err := parseDump(p.Config)
	if err != nil {
		return []record.Check{{Name: name, Detail: err.Error()}}
	}
	chain := waypointChain(cmp.Or(e.Endpoint.Host, hostIn(e.Endpoint.Namespace, e.Endpoint.Service)), e.Endpoint.Port)
	filters, chains, err := d.filters("", func(c chainIn) bool { return c.Name == chain })
	if err != nil {
		return []record.Check{{Name: name, Detail: err.Error()}}
	}
	var got, known []string
	for _, f := range filters {
		if kind, ok := strings.CutPrefix(f.Name, ourFilters); ok {
			got = append(got, kind)
		}
	}
	for _, part := range want {
		known = append(known, part.Kind)
	}
	slices.Sort(got)
	slices.Sort(known)
	detail := fmt.Sprintf("additional filters in the waypoint: %s; the cell sets %s", orNone(strings.Join(got, ", ")), orNone(strings.Join(known, ", ")))
	if chains == 0 {
		detail = "the waypoint has no chain " + chain
	}
	refused := d.refused()
	if len(refused) > 0 {
		detail += "; the waypoint refused configuration: " + strings.Join(refused, "; ")
	}
	checks := []record.Check{{Name: name, OK: chains > 0 && slices.Equal(got, known) && len(refused) == 0, Detail: detail}}
	for _, part := range want {
		checks = append(checks, answeredCheck("waypoint-", part.Kind, e, p))
	}
	return checks
}

// answeredCheck checks that a filter's service allowed each request.
func answeredCheck(prefix, filter string, e mesh.Evidence, p *mesh.Passed) record.Check {
	low, high := float64(e.Requests), float64(e.Requests+e.Unknown)
	count := func(result string) float64 { return calloutResult(p.Rise, filter, result) }
	check := mesh.Expect(prefix+filter, count("ok"), (low+high)/2, (high-low)/2, "requests that the service allowed")
	if denied, over, failed := count("denied"), count("over_limit"), count("error"); denied+over+failed > 0 {
		check.OK, check.Detail = false, fmt.Sprintf("%s; %.0f were denied, %.0f over the limit, and %.0f without an answer", check.Detail, denied, over, failed)
	}
	return check
}

// calloutResult returns how many requests of a filter had a result: ok, denied, over_limit, error.
func calloutResult(stats map[string]float64, filter, result string) float64 {
	prefix, family := "http.", ".ext_authz."
	if filter == study.CalloutRateLimit {
		prefix, family = "cluster.", ".ratelimit."
	}
	return sum(stats, prefix, family+statPrefix(filter)+"."+result)
}

var _ mesh.CalloutChecker = (*Mesh)(nil)

// CheckCallout compares the filter in force in the Envoy of a service with the cell.
func (*Mesh) CheckCallout(config []byte, port int, w mesh.Workload) []record.Check {
	const name = study.FactorCallout
	want, ok := askedBy(w)
	if !ok {
		return nil
	}
	d, err := parseDump(config)
	if err != nil {
		return []record.Check{{Name: name, Detail: err.Error()}}
	}
	filters, _, err := d.filters(inboundListener, func(c chainIn) bool { return c.Match.Port == port })
	if err != nil {
		return []record.Check{{Name: name, Detail: err.Error()}}
	}
	i := slices.IndexFunc(filters, func(f filterIn) bool { return f.Name == ourFilters+want.filter })
	if i < 0 {
		return []record.Check{{Name: name, Detail: fmt.Sprintf("the service's proxy has no filter %s for port %d", want.filter, port)}}
	}
	found := filters[i].Config
	mode, timeout := failureMode(found), waits(found)
	wanted := study.FailClosed
	if want.failOpen {
		wanted = study.FailOpen
	}
	return []record.Check{{Name: name, OK: mode == wanted && timeout == lasting(want.timeout),
		Detail: fmt.Sprintf("the service's proxy has %s that fails %s after %v; the cell sets %s after %v", want.filter, mode, timeout, wanted, lasting(want.timeout))}}
}

// waits returns how long a filter waits for an answer, by its configuration; 0 if that does not say.
func waits(config map[string]any) time.Duration {
	at := config
	for _, field := range []string{"grpc_service", "http_service"} {
		if inner, ok := config[field].(map[string]any); ok {
			at = inner
		}
	}
	if uri, ok := at["server_uri"].(map[string]any); ok {
		at = uri
	}
	text, _ := at["timeout"].(string)
	return lasting(text)
}

// failureMode returns how a filter fails in its configuration. JSON omits false.
func failureMode(config map[string]any) string {
	open := config["failure_mode_allow"] == true
	if config["@type"] == globalLimitType {
		open = config["failure_mode_deny"] != true
	}
	if open {
		return study.FailOpen
	}
	return study.FailClosed
}
