package istio

import (
	"fmt"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
)

const port = 8080

// dumpOf returns a configuration dump as from an Istio Envoy, reduced to what
// readDump reads.
func dumpOf(mtls, log string, stats bool) []byte {
	chain := func(tls bool) string {
		socket, logs := "", ""
		if tls {
			socket = `,"transport_socket":{"name":"envoy.transport_sockets.tls"}`
		}
		switch log {
		case "text":
			logs = `"access_log":[{"typed_config":{"path":"/dev/stdout","log_format":{"text_format_source":{"inline_string":"x"}}}}]`
		case "json":
			logs = `"access_log":[{"typed_config":{"path":"/dev/stdout","log_format":{"json_format":{"a":"b"}}}}]`
		}
		return fmt.Sprintf(`{"filter_chain_match":{"destination_port":%d},"filters":[{"typed_config":{%s}}]%s}`, port, logs, socket)
	}
	chains := map[string]string{"strict": chain(true), "off": chain(false), "permissive": chain(true) + "," + chain(false)}[mtls]
	if chains == "" {
		chains = `{"filter_chain_match":{"destination_port":1}}`
	}
	pattern := `cluster\\..*`
	if stats {
		pattern = ".*"
	}
	return fmt.Appendf(nil, `{"configs":[
{"@type":"type.googleapis.com/envoy.admin.v3.BootstrapConfigDump","bootstrap":{"stats_config":{"stats_matcher":{"inclusion_list":{"patterns":[{"safe_regex":{"regex":"%s"}}]}}}}},
{"@type":"type.googleapis.com/envoy.admin.v3.ListenersConfigDump","dynamic_listeners":[{"name":"virtualInbound","active_state":{"listener":{"filter_chains":[%s]}}},{"name":"virtualOutbound","active_state":{"listener":{}}}]}]}`,
		pattern, chains)
}

func TestConfigured(t *testing.T) {
	for _, mtls := range []string{"strict", "permissive", "off"} {
		for _, telemetry := range []string{"off", "access-log-text", "access-log-json", "access-log-text+stats", "access-log-json+stats"} {
			e := mesh.Evidence{Cell: record.Cell{"mtls": mtls, "telemetry": telemetry}, Endpoint: mesh.Endpoint{Port: port}}
			for _, other := range []string{"strict", "permissive", "off"} {
				for _, log := range []string{"", "text", "json"} {
					for _, stats := range []bool{true, false} {
						right := other == mtls && strings.HasPrefix(telemetry+"?", map[string]string{"": "off", "text": "access-log-text", "json": "access-log-json"}[log]) &&
							stats == strings.HasSuffix(telemetry, "+stats")
						ok := true
						for _, c := range configured("server", e, dumpOf(other, log, stats)) {
							ok = ok && c.OK
						}
						if ok != right {
							t.Errorf("cell %s %s, proxy %s %q stats %v: passes %v", mtls, telemetry, other, log, stats, ok)
						}
					}
				}
			}
		}
	}
	for _, broken := range []string{"", "{", "{}", `{"configs":[{"dynamic_listeners":[{"name":"virtualInbound","active_state":{"listener":7}}]}]}`} {
		if checks := configured("client", mesh.Evidence{}, []byte(broken)); len(checks) != 1 || checks[0].OK {
			t.Errorf("%q: %+v", broken, checks)
		}
	}
}

func FuzzReadDump(f *testing.F) {
	f.Add(dumpOf("strict", "json", true))
	f.Add([]byte(`{"configs":[]}`))
	f.Fuzz(func(_ *testing.T, dump []byte) { _, _ = readDump(dump, port) })
}
