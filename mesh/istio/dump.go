package istio

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
)

// loaded is what a sidecar's configuration says of the levers that no
// counter shows.
type loaded struct {
	logs     []string // formats of its access logs: text, json; sorted, each once
	allStats bool     // it records every statistic
	// listeners are the names of its active ones.
	listeners []string
	mtls      string // what its inbound side accepts on the worker's port: strict, permissive, off; "" if it has no such port
}

// everything is the pattern by which Decorate asks for all statistics.
const everything = ".*"

// readDump reads an Envoy's /config_dump.
// See envoy/admin/v3/config_dump.proto and envoy/config/listener/v3/listener.proto.
func readDump(dump []byte, port int) (loaded, error) {
	var document struct {
		Configs []struct {
			Type      string          `json:"@type"`
			Bootstrap json.RawMessage `json:"bootstrap"`
			Listeners []struct {
				Name   string `json:"name"`
				Active struct {
					Listener json.RawMessage `json:"listener"`
				} `json:"active_state"`
			} `json:"dynamic_listeners"`
		} `json:"configs"`
	}
	if err := json.Unmarshal(dump, &document); err != nil {
		return loaded{}, fmt.Errorf("configuration of the proxy: %w", err)
	}
	var out loaded
	listeners := 0
	for _, config := range document.Configs {
		if strings.HasSuffix(config.Type, ".BootstrapConfigDump") {
			var bootstrap any
			if err := json.Unmarshal(config.Bootstrap, &bootstrap); err != nil {
				return loaded{}, fmt.Errorf("bootstrap of the proxy: %w", err)
			}
			visit(bootstrap, "stats_matcher", func(v any) {
				visit(v, "regex", func(pattern any) { out.allStats = out.allStats || pattern == everything })
			})
		}
		for _, l := range config.Listeners {
			if len(l.Active.Listener) == 0 {
				continue
			}
			listeners++
			out.listeners = append(out.listeners, l.Name)
			var listener any
			if err := json.Unmarshal(l.Active.Listener, &listener); err != nil {
				return loaded{}, fmt.Errorf("listener %q of the proxy: %w", l.Name, err)
			}
			visit(listener, "access_log", func(v any) {
				visit(v, "json_format", func(any) { out.logs = append(out.logs, "json") })
				visit(v, "text_format_source", func(any) { out.logs = append(out.logs, "text") })
				visit(v, "text_format", func(any) { out.logs = append(out.logs, "text") })
			})
			if l.Name == "virtualInbound" || l.Name == ownInbound(port) {
				mode, err := inboundMode(l.Active.Listener, port)
				if err != nil {
					return loaded{}, err
				}
				out.mtls = mode
			}
		}
	}
	if listeners == 0 {
		return loaded{}, fmt.Errorf("the proxy has no active listener")
	}
	slices.Sort(out.logs)
	out.logs = slices.Compact(out.logs)
	return out, nil
}

// inboundMode says what the chains for a port accept: with TLS only, without
// only, or both.
func inboundMode(listener json.RawMessage, port int) (string, error) {
	var l struct {
		Chains []struct {
			Match struct {
				Port int `json:"destination_port"`
			} `json:"filter_chain_match"`
			Socket json.RawMessage `json:"transport_socket"`
		} `json:"filter_chains"`
	}
	if err := json.Unmarshal(listener, &l); err != nil {
		return "", fmt.Errorf("inbound listener of the proxy: %w", err)
	}
	tls, plain := false, false
	for _, chain := range l.Chains {
		if chain.Match.Port == port {
			tls, plain = tls || chain.Socket != nil, plain || chain.Socket == nil
		}
	}
	switch {
	case tls && plain:
		return "permissive", nil
	case tls:
		return "strict", nil
	case plain:
		return "off", nil
	}
	return "", nil
}

// visit calls f with every value that stands under a key, at any depth.
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

// configured checks a sidecar's configuration for the levers that counters
// cannot tell apart: text from JSON logs, all statistics from the default,
// strict from permissive mTLS.
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
			Detail: fmt.Sprintf("the proxy's access logs: %s; the cell says %s", orNone(got), orNone(want))},
		{Name: side + "-stats", OK: have.allStats == withStats(telemetry),
			Detail: fmt.Sprintf("the proxy records all statistics: %v; the cell says %v", have.allStats, withStats(telemetry))},
		intercepted(side, e, have.listeners),
	}
	if mtls := e.Cell["mtls"]; side == "server" && !e.Endpoint.Opaque {
		checks = append(checks, record.Check{Name: "server-mtls", OK: have.mtls == mtls,
			Detail: fmt.Sprintf("the proxy's inbound side is %s; the cell says %s", orNone(have.mtls), mtls)})
	}
	return checks
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
