package istio

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
)

// loaded is the part of a sidecar's configuration about levers that no counter
// reflects.
type loaded struct {
	logs     []string // distinct formats of its access logs, sorted: text, json
	allStats bool     // it records every statistic
	// listeners has the names of its active listeners.
	listeners []string
	mtls      string // what its inbound side accepts on the worker's port: strict, permissive, off; "" without such a port
}

// everything is the pattern with which Decorate requests all statistics.
const everything = ".*"

// dump is the part of an Envoy's /config_dump that is examined. See
// envoy/admin/v3/config_dump.proto.
type dump struct {
	Configs []struct {
		Bootstrap map[string]any `json:"bootstrap"`
		Listeners []listenerIn   `json:"dynamic_listeners"`
		Clusters  []clusterIn    `json:"dynamic_active_clusters"`
		Warming   []clusterIn    `json:"dynamic_warming_clusters"`
		Routes    []struct {
			Error  *errorText `json:"error_state"`
			Config struct {
				Hosts []struct {
					Routes []envoyRoute `json:"routes"`
				} `json:"virtual_hosts"`
			} `json:"route_config"`
		} `json:"dynamic_route_configs"`
		Extensions []extensionIn `json:"ecds_filters"`
		Secrets    []struct {
			Name   string `json:"name"`
			Secret struct {
				Certificate struct {
					Chain struct {
						Bytes []byte `json:"inline_bytes"`
					} `json:"certificate_chain"`
				} `json:"tls_certificate"`
			} `json:"secret"`
		} `json:"dynamic_active_secrets"`
	} `json:"configs"`
}

type listenerIn struct {
	Name   string     `json:"name"`
	Error  *errorText `json:"error_state"`
	Active struct {
		Listener json.RawMessage `json:"listener"`
	} `json:"active_state"`
}

type clusterIn struct {
	Error   *errorText   `json:"error_state"`
	Cluster envoyCluster `json:"cluster"`
}

// extensionIn is a filter that is configured apart from its listeners, as Wasm filters are.
type extensionIn struct {
	Error  *errorText `json:"error_state"`
	Filter struct {
		Name   string `json:"name"`
		Config struct {
			Config struct {
				VM struct {
					Code struct {
						Local struct {
							Bytes []byte `json:"inline_bytes"`
						} `json:"local"`
					} `json:"code"`
				} `json:"vm_config"`
			} `json:"config"`
		} `json:"typed_config"`
	} `json:"ecds_filter"`
}

type errorText struct {
	Details string `json:"details"`
}

func parseDump(data []byte) (d dump, err error) {
	if err := json.Unmarshal(data, &d); err != nil {
		return d, fmt.Errorf("configuration of the proxy: %w", err)
	}
	return d, nil
}

// active returns the listener in force; nil if there is none.
func (l listenerIn) active() (v any) {
	_ = json.Unmarshal(l.Active.Listener, &v) // the whole dump was valid JSON
	return v
}

// inbound returns the listener as an inbound listener.
func (l listenerIn) inbound() (in inbound, err error) {
	if err := json.Unmarshal(l.Active.Listener, &in); err != nil {
		return in, fmt.Errorf("inbound listener of the proxy: %w", err)
	}
	return in, nil
}

// filters returns the HTTP filters of those chains that fit, and the number of these chains, of the
// active listener with a name, or of all for "".
func (d dump) filters(listener string, fits func(chainIn) bool) (out []filterIn, chains int, err error) {
	for _, config := range d.Configs {
		for _, l := range config.Listeners {
			if len(l.Active.Listener) == 0 || listener != "" && l.Name != listener {
				continue
			}
			in, err := l.inbound()
			if err != nil {
				return nil, 0, err
			}
			for _, chain := range in.Chains {
				if !fits(chain) {
					continue
				}
				chains++
				for _, f := range chain.Filters {
					out = append(out, f.Config.Filters...)
				}
			}
		}
	}
	return out, chains, nil
}

// refused returns the proxy's messages about configuration that it rejected.
func (d dump) refused() (out []string) {
	add := func(e *errorText) {
		if e != nil && e.Details != "" {
			out = append(out, e.Details)
		}
	}
	for _, config := range d.Configs {
		for _, l := range config.Listeners {
			add(l.Error)
		}
		for _, c := range slices.Concat(config.Clusters, config.Warming) {
			add(c.Error)
		}
		for _, r := range config.Routes {
			add(r.Error)
		}
		for _, x := range config.Extensions {
			add(x.Error)
		}
	}
	return out
}

// readDump reads an Envoy's /config_dump.
func readDump(data []byte, port int) (loaded, error) {
	d, err := parseDump(data)
	if err != nil {
		return loaded{}, err
	}
	var out loaded
	for _, config := range d.Configs {
		visit(config.Bootstrap, "stats_matcher", func(v any) {
			visit(v, "regex", func(pattern any) { out.allStats = out.allStats || pattern == everything })
		})
		for _, l := range config.Listeners {
			if len(l.Active.Listener) == 0 {
				continue
			}
			out.listeners = append(out.listeners, l.Name)
			visit(l.active(), "access_log", func(v any) {
				visit(v, "json_format", func(any) { out.logs = append(out.logs, "json") })
				visit(v, "text_format_source", func(any) { out.logs = append(out.logs, "text") })
				visit(v, "text_format", func(any) { out.logs = append(out.logs, "text") })
			})
			if l.Name == inboundListener || l.Name == ownInbound(port) {
				in, err := l.inbound()
				if err != nil {
					return loaded{}, err
				}
				out.mtls = in.mode(port)
			}
		}
	}
	if len(out.listeners) == 0 {
		return loaded{}, fmt.Errorf("the proxy has no active listener")
	}
	slices.Sort(out.logs)
	out.logs = slices.Compact(out.logs)
	return out, nil
}

// mode returns what the chains for a port accept: only TLS, only plain text, or
// both.
func (in inbound) mode(port int) string {
	tls, plain := false, false
	for _, chain := range in.Chains {
		if chain.Match.Port == port {
			tls, plain = tls || chain.Socket != nil, plain || chain.Socket == nil
		}
	}
	switch {
	case tls && plain:
		return "permissive"
	case tls:
		return "strict"
	case plain:
		return "off"
	}
	return ""
}

// visit calls f with every value under a key, at any depth.
func visit(v any, key string, f func(any)) {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			if k == key {
				f(inner)
			} else {
				visit(inner, key, f)
			}
		}
	case []any:
		for _, inner := range v {
			visit(inner, key, f)
		}
	}
}

// configured checks a sidecar's configuration for the levers that counters cannot
// distinguish: text from JSON logs, all statistics from the default, strict from
// permissive mTLS.
func configured(side string, e mesh.Evidence, dump []byte) []record.Check {
	have, err := readDump(dump, inboundPort(e))
	if err != nil {
		return []record.Check{{Name: side + "-config", Detail: err.Error()}}
	}
	telemetry := e.Cell["telemetry"]
	want := ""
	switch {
	case strings.HasPrefix(telemetry, "access-log-text"):
		want = "text"
	case strings.HasPrefix(telemetry, "access-log-json"):
		want = "json"
	}
	got := strings.Join(have.logs, " and ")
	checks := []record.Check{
		{Name: side + "-log-format", OK: got == want,
			Detail: fmt.Sprintf("the proxy's access logs are %s; the cell sets %s", orNone(got), orNone(want))},
		{Name: side + "-stats", OK: have.allStats == withStats(telemetry),
			Detail: fmt.Sprintf("the proxy records all statistics: %v; the cell sets %v", have.allStats, withStats(telemetry))},
		intercepted(side, e, have.listeners),
	}
	if mtls := e.Cell["mtls"]; side == "server" && !e.Endpoint.Opaque {
		checks = append(checks, record.Check{Name: "server-mtls", OK: have.mtls == mtls,
			Detail: fmt.Sprintf("the proxy's inbound side is %s; the cell sets %s", orNone(have.mtls), mtls)})
	}
	return checks
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
