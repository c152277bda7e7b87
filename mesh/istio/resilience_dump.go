package istio

import (
	"strings"

	"github.com/meshtrial/meshtrial/observe/ledger"
)

// envoyCluster, envoyRoute and their parts are the parts of an Envoy's
// configuration that CheckTraffic examines. Absent numbers are nil. See
// envoy/config/cluster/v3/cluster.proto and route/v3/route_components.proto.
type envoyCluster struct {
	Name     string        `json:"name"`
	Policy   string        `json:"lb_policy"` // absent: ROUND_ROBIN
	Outliers *outliers     `json:"outlier_detection"`
	Breakers breakers      `json:"circuit_breakers"`
	Metadata istioMetadata `json:"metadata"`
}

type outliers struct {
	Errors   *int64 `json:"consecutive_5xx"`
	Interval string `json:"interval"`
	Ejection string `json:"base_ejection_time"`
	Max      *int64 `json:"max_ejection_percent"`
}

type breakers struct {
	Thresholds []threshold `json:"thresholds"`
}

type threshold struct {
	Priority    string `json:"priority"` // absent: DEFAULT
	Connections *int64 `json:"max_connections"`
	Pending     *int64 `json:"max_pending_requests"`
	Requests    *int64 `json:"max_requests"`
	Retries     *int64 `json:"max_retries"`
}

type envoyRoute struct {
	Action struct {
		Cluster string       `json:"cluster"`
		Timeout string       `json:"timeout"`
		Retry   *retryPolicy `json:"retry_policy"`
		Hash    []hashPolicy `json:"hash_policy"`
	} `json:"route"`
	Metadata istioMetadata `json:"metadata"`
}

type retryPolicy struct {
	On    string  `json:"retry_on"`
	Num   *int64  `json:"num_retries"` // absent: 1
	Each  string  `json:"per_try_timeout"`
	Codes []int64 `json:"retriable_status_codes"`
}

type hashPolicy struct {
	Header struct {
		Name string `json:"header_name"`
	} `json:"header"`
}

// istioMetadata is where istiod records which of its objects created something:
// "/apis/networking.istio.io/v1/namespaces/NAMESPACE/virtual-service/NAME".
type istioMetadata struct {
	Filter struct {
		Istio struct {
			Config string `json:"config"`
		} `json:"istio"`
	} `json:"filter_metadata"`
}

// madeBy returns "NAMESPACE/KIND/NAME" of the object; "" if there is none.
func (m istioMetadata) madeBy() string {
	_, rest, _ := strings.Cut(m.Filter.Istio.Config, "/namespaces/")
	return rest
}

// inForce is the traffic-related part of a proxy's configuration.
type inForce struct {
	clusters map[string]envoyCluster // by name
	routes   map[string][]envoyRoute // by target cluster
	// requestLog and attemptLog mean that the proxy writes the ledger's lines.
	requestLog, attemptLog bool
}

// readInForce parses an Envoy's /config_dump, without configuration that is
// still warming.
func readInForce(data []byte) (inForce, error) {
	d, err := parseDump(data)
	if err != nil {
		return inForce{}, err
	}
	out := inForce{clusters: map[string]envoyCluster{}, routes: map[string][]envoyRoute{}}
	for _, config := range d.Configs {
		for _, c := range config.Clusters {
			out.clusters[c.Cluster.Name] = c.Cluster
		}
		for _, r := range config.Routes {
			for _, h := range r.Config.Hosts {
				for _, route := range h.Routes {
					out.routes[route.Action.Cluster] = append(out.routes[route.Action.Cluster], route)
				}
			}
		}
		for _, l := range config.Listeners {
			visit(l.active(), "access_log", func(v any) { out.requestLog = out.requestLog || writes(v, ledger.Fields) })
			visit(l.active(), "upstream_log", func(v any) { out.attemptLog = out.attemptLog || writes(v, ledger.AttemptFields) })
		}
	}
	return out, nil
}

// writes reports whether one of the access logs has all of the fields.
func writes(logs any, fields [][2]string) bool {
	found := false
	visit(logs, "json_format", func(v any) {
		format, _ := v.(map[string]any)
		all := true
		for _, f := range fields {
			all = all && format[f[0]] == f[1]
		}
		found = found || all
	})
	return found
}
