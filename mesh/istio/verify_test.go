package istio

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/protocol"
	"pgregory.net/rapid"
)

const requests, connections = 1000, 16

// trial returns the evidence of a trial that matches its cell: the counts of
// correct proxies and a correct worker.
func trial(levels record.Cell) mesh.Evidence {
	cell := record.Cell{
		"sidecars": "both", "protocol": "http1", "mtls": "strict", "telemetry": "off",
		"concurrency": "2", "cpu_limit": "none", "envoy": "default", "keep_alive": "true",
	}.With(levels)
	e := mesh.Evidence{
		Cell:     cell,
		Endpoint: mesh.Endpoint{Service: "server-sidecar", Namespace: "meshtrial-1", Port: 8080, Opaque: cell["protocol"] == "tcp"},
		Requests: requests, Connections: connections,
		Way: study.WayOf(cell), Proxies: map[string]*mesh.Passed{},
		Worker: map[string]float64{"requests": requests},
	}
	client := cell["sidecars"] == "client" || cell["sidecars"] == "both"
	server := cell["sidecars"] == "server" || cell["sidecars"] == "both"
	state := func() *mesh.ProxyState {
		version := "1.40.0"
		if v := cell["envoy"]; v != "default" {
			version = v
		}
		return &mesh.ProxyState{Version: version, CPULimit: cell["cpu_limit"]}
	}
	log := ""
	for _, kind := range []string{"text", "json"} {
		if strings.HasPrefix(cell["telemetry"], "access-log-"+kind) {
			log = kind
		}
	}
	config := dumpOf(cell["mtls"], log, withStats(cell["telemetry"]))
	logged := 2.0 // by the admin interface
	if withAccessLog(cell["telemetry"]) {
		logged += requests
		if e.Endpoint.Opaque {
			logged = 0 // connections have not ended yet
		}
	}
	totals := map[string]float64{"server.concurrency": 2}
	if cell["concurrency"] == "1" {
		totals["server.concurrency"] = 1
	}
	if client {
		e.Proxies["client_proxy"] = &mesh.Passed{State: state(), Total: maps.Clone(totals), Config: config, Rise: map[string]float64{"filesystem.write_buffered": logged,
			"cluster.outbound|8080||server-sidecar.meshtrial-1.svc.cluster.local.upstream_rq_total": requests,
			"cluster.outbound|8080||server-sidecar.meshtrial-1.svc.cluster.local.upstream_cx_total": connections,
			"cluster.outbound|8080||other.meshtrial-1.svc.cluster.local.upstream_rq_total":          7,
		}}
	}
	if server {
		e.Proxies["server_proxy"] = &mesh.Passed{State: state(), Total: maps.Clone(totals), Config: config, Rise: map[string]float64{"filesystem.write_buffered": logged,
			"cluster.inbound|8080||.upstream_rq_total":    requests,
			"cluster.inbound|8080||.upstream_cx_total":    connections,
			"listener.0.0.0.0_15006.ssl.handshake":        0,
			"cluster.inbound|15020||.upstream_rq_total":   3,
			"listener.0.0.0.0_15090.downstream_cx_total":  1,
			"cluster.agent.upstream_rq_total":             4,
			"http.inbound_0.0.0.0_8080.downstream_rq_2xx": requests,
		}}
		if client && cell["mtls"] != "off" {
			serverOf(&e).Rise["listener.0.0.0.0_15006.ssl.handshake"] = 2
			serverOf(&e).Total["listener.0.0.0.0_15006.ssl.handshake"] = 5
			e.Worker["client_cert"] = requests
		}
	}
	if e.Endpoint.Opaque {
		delete(e.Worker, "client_cert")
	}
	if protocol.Of(cell["protocol"]).Streams {
		asStreams(&e)
	}
	return e
}

// asStreams makes the requests messages of 100 bytes on streams.
func asStreams(e *mesh.Evidence) {
	e.Endpoint.Streams = true
	e.Wire = &mesh.Wire{Sent: 100 * requests, Read: 100 * requests, Bodies: true}
	for part, prefix := range map[string]string{
		"client_proxy": "cluster.outbound|8080||server-sidecar.meshtrial-1.svc.cluster.local.",
		"server_proxy": "cluster.inbound|8080||.",
	} {
		if p := e.Proxies[part]; p != nil {
			p.Rise[prefix+"upstream_rq_total"] = connections
			p.Rise[prefix+"upstream_cx_tx_bytes_total"] = 106 * requests // with frames
			p.Rise[prefix+"upstream_cx_rx_bytes_total"] = 104 * requests
			if p.Rise["filesystem.write_buffered"] >= requests {
				p.Rise["filesystem.write_buffered"] = connections
			}
		}
	}
}

func clientOf(e *mesh.Evidence) *mesh.Passed { return e.Proxies["client_proxy"] }

func serverOf(e *mesh.Evidence) *mesh.Passed { return e.Proxies["server_proxy"] }

func failed(checks []record.Check) []string {
	var out []string
	for _, c := range checks {
		if !c.OK {
			out = append(out, c.Name)
		}
	}
	slices.Sort(out)
	return out
}

// fails checks that evidence fails these checks and no others.
func fails(t *testing.T, e mesh.Evidence, want ...string) {
	t.Helper()
	if checks := (&Mesh{}).Verify(e); !slices.Equal(failed(checks), want) {
		t.Errorf("failed are %v, want %v: %+v", failed(checks), want, checks)
	}
}

// tells checks that an error has these words in its text and its hint, or that there is none
// without words.
func tells(t *testing.T, what any, err error, words, hint string) {
	t.Helper()
	if words == "" && err != nil || words != "" && (err == nil || !strings.Contains(err.Error(), words) || !strings.Contains(errs.Hint(err), hint)) {
		t.Errorf("%v: %v (hint %q), want %q (%q)", what, err, errs.Hint(err), words, hint)
	}
}

// refuses checks that an error tells of wrong usage.
func refuses(t *testing.T, what any, err error, words, hint string) {
	t.Helper()
	if tells(t, what, err, words, hint); words != "" && errs.Code(err) != errs.CodeUsage {
		t.Errorf("%v: exit code %d", what, errs.Code(err))
	}
}

var levels = map[string][]string{
	"sidecars":    {"none", "server", "client", "both"},
	"protocol":    {"http1", "http2", "grpc", "tcp", "websocket", "grpc-stream"},
	"mtls":        {"strict", "permissive", "off"},
	"telemetry":   {"off", "access-log-text", "access-log-json", "access-log-text+stats", "access-log-json+stats"},
	"concurrency": {"1", "2"},
	"cpu_limit":   {"none", "500m"},
	"envoy":       {"default", "1.39.0"},
}

// Every cell passes with its own evidence.
func TestVerifyPassesWhatIsTrue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cell := drawCell(t, "")
		if bad := failed((&Mesh{}).Verify(trial(cell))); bad != nil {
			t.Errorf("cell %s fails %v", cell.Key(), bad)
		}
	})
}

func drawCell(t *rapid.T, name string) record.Cell {
	cell := record.Cell{}
	for _, factor := range slices.Sorted(maps.Keys(levels)) {
		cell[factor] = rapid.SampledFrom(levels[factor]).Draw(t, name+factor)
	}
	return cell
}

// A trial whose pods ran in another mode than labelled is detected, by the check
// of that mode.
func TestVerifyRefusesMislabelledCells(t *testing.T) {
	for _, tt := range []struct {
		name        string
		ran, labels record.Cell // applied to the defaults
		fails       []string
	}{
		{"no sidecars for both", record.Cell{"sidecars": "none"}, nil, []string{"client-certificates", "client-sidecar", "server-sidecar", "tls-handshakes"}},
		{"client for both", record.Cell{"sidecars": "client"}, nil, []string{"client-certificates", "server-sidecar", "tls-handshakes"}},
		{"server for both", record.Cell{"sidecars": "server"}, nil, []string{"client-certificates", "client-sidecar", "tls-handshakes"}},
		{"both for none", nil, record.Cell{"sidecars": "none"}, []string{"client-certificates", "client-sidecar", "server-sidecar"}},
		{"both for server", nil, record.Cell{"sidecars": "server"}, []string{"client-certificates", "client-sidecar", "tls-handshakes"}},
		{"client for server", record.Cell{"sidecars": "client"}, record.Cell{"sidecars": "server"}, []string{"client-sidecar", "server-sidecar"}},
		{"mTLS off for strict", record.Cell{"mtls": "off"}, nil, []string{"client-certificates", "server-mtls", "tls-handshakes"}},
		{"mTLS strict for off", nil, record.Cell{"mtls": "off"}, []string{"client-certificates", "server-mtls", "tls-handshakes"}},
		{"mTLS off for strict, TCP", record.Cell{"mtls": "off", "protocol": "tcp"}, record.Cell{"protocol": "tcp"}, []string{"tls-handshakes"}},
		{"no log for text", nil, record.Cell{"telemetry": "access-log-text"}, []string{"client-access-log", "client-log-format", "server-access-log", "server-log-format"}},
		{"no log for JSON and stats", nil, record.Cell{"telemetry": "access-log-json+stats"}, []string{"client-access-log", "client-log-format", "client-stats", "server-access-log", "server-log-format", "server-stats"}},
		{"JSON for no log", record.Cell{"telemetry": "access-log-json"}, nil, []string{"client-access-log", "client-log-format", "server-access-log", "server-log-format"}},
		{"text for JSON", record.Cell{"telemetry": "access-log-text"}, record.Cell{"telemetry": "access-log-json"}, []string{"client-log-format", "server-log-format"}},
		{"text for text and stats", record.Cell{"telemetry": "access-log-text"}, record.Cell{"telemetry": "access-log-text+stats"}, []string{"client-stats", "server-stats"}},
		{"permissive for strict", record.Cell{"mtls": "permissive"}, nil, []string{"server-mtls"}},
		{"two threads for one", nil, record.Cell{"concurrency": "1"}, []string{"client-concurrency", "server-concurrency"}},
		{"no limit for 500m", nil, record.Cell{"cpu_limit": "500m"}, []string{"client-cpu-limit", "server-cpu-limit"}},
		{"another Envoy", nil, record.Cell{"envoy": "1.39.0"}, []string{"client-envoy", "server-envoy"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := trial(tt.ran)
			e.Cell, e.Way = trial(tt.labels).Cell, trial(tt.labels).Way
			fails(t, e, tt.fails...)
		})
	}
}

// A single wrong number in the evidence fails exactly the check that uses it.
func TestVerifyChecksEveryNumber(t *testing.T) {
	const out, in = "cluster.outbound|8080||server-sidecar.meshtrial-1.svc.cluster.local.", "cluster.inbound|8080||."
	tcp, log := record.Cell{"protocol": "tcp"}, record.Cell{"telemetry": "access-log-text"}
	for _, tt := range []struct {
		name   string
		cell   record.Cell
		change func(*mesh.Evidence)
		fails  string // "" for none
	}{
		{"a request too few at the client proxy", nil, func(e *mesh.Evidence) { clientOf(e).Rise[out+"upstream_rq_total"]-- }, "client-requests"},
		{"a request too many at the client proxy", nil, func(e *mesh.Evidence) { clientOf(e).Rise[out+"upstream_rq_total"]++ }, "client-requests"},
		{"a request too few at the server proxy", nil, func(e *mesh.Evidence) { serverOf(e).Rise[in+"upstream_rq_total"]-- }, "server-requests"},
		{"a stream too few at the client proxy", record.Cell{"protocol": "websocket"}, func(e *mesh.Evidence) { clientOf(e).Rise[out+"upstream_rq_total"]-- }, "client-requests"},
		{"a stream too many at the server proxy", record.Cell{"protocol": "grpc-stream"}, func(e *mesh.Evidence) { serverOf(e).Rise[in+"upstream_rq_total"]++ }, "server-requests"},
		{"messages that did not pass the server proxy", record.Cell{"protocol": "websocket"}, func(e *mesh.Evidence) { serverOf(e).Rise[in+"upstream_cx_tx_bytes_total"] -= 7 * requests }, "server-requests-sent"},
		{"answers that did not pass the client proxy", record.Cell{"protocol": "websocket"}, func(e *mesh.Evidence) { clientOf(e).Rise[out+"upstream_cx_rx_bytes_total"] -= 5 * requests }, "client-requests-read"},
		{"requests to another service", nil, func(e *mesh.Evidence) {
			delete(clientOf(e).Rise, out+"upstream_rq_total")
			clientOf(e).Rise["cluster.outbound|8080||other.meshtrial-1.svc.cluster.local.upstream_rq_total"] = requests
		}, "client-requests"},
		{"requests to another port", nil, func(e *mesh.Evidence) {
			delete(serverOf(e).Rise, in+"upstream_rq_total")
			serverOf(e).Rise["cluster.inbound|18080||.upstream_rq_total"] = requests
		}, "server-requests"},
		{"a request of unknown fate that arrived", nil, func(e *mesh.Evidence) {
			e.Unknown = 1
			clientOf(e).Rise[out+"upstream_rq_total"]++
		}, ""},
		{"two arrived where one may have", nil, func(e *mesh.Evidence) {
			e.Unknown = 1
			clientOf(e).Rise[out+"upstream_rq_total"] += 2
		}, "client-requests"},
		{"requests do not matter for TCP", tcp, func(e *mesh.Evidence) { clientOf(e).Rise[out+"upstream_rq_total"] = 0 }, ""},
		{"a connection too many", tcp, func(e *mesh.Evidence) { clientOf(e).Rise[out+"upstream_cx_total"]++ }, "client-requests"},
		{"a connection too few", tcp, func(e *mesh.Evidence) { serverOf(e).Rise[in+"upstream_cx_total"]-- }, "server-requests"},
		{"a probe that was passed on", tcp, func(e *mesh.Evidence) {
			e.Connections, e.Probes = e.Connections+1, 1
			clientOf(e).Rise[out+"upstream_cx_total"]++
			serverOf(e).Rise[in+"upstream_cx_total"]++
		}, ""},
		{"a probe that was not", tcp, func(e *mesh.Evidence) { e.Connections, e.Probes = e.Connections+1, 1 }, ""},
		{"more than the probe missing", tcp, func(e *mesh.Evidence) {
			e.Connections, e.Probes = e.Connections+1, 1
			serverOf(e).Rise[in+"upstream_cx_total"]--
		}, "server-requests"},
		{"a line missing in the log", log, func(e *mesh.Evidence) { serverOf(e).Rise["filesystem.write_buffered"] = requests - 1 }, "server-access-log"},
		{"no line for TCP yet", record.Cell{"protocol": "tcp", "telemetry": "access-log-text"}, func(e *mesh.Evidence) { clientOf(e).Rise["filesystem.write_buffered"] = 0 }, ""},
		{"more lines than the admin interface writes", nil, func(e *mesh.Evidence) { clientOf(e).Rise["filesystem.write_buffered"] = adminLines + 1 }, "client-access-log"},
		{"concurrency unknown", nil, func(e *mesh.Evidence) { delete(serverOf(e).Total, "server.concurrency") }, "server-concurrency"},
		{"one certificate missing", nil, func(e *mesh.Evidence) { e.Worker["client_cert"]-- }, "client-certificates"},
		{"one in plain text, mTLS off", record.Cell{"mtls": "off"}, func(e *mesh.Evidence) { e.Worker["client_cert"]++ }, "client-certificates"},
		{"handshake of an earlier trial", nil, func(e *mesh.Evidence) { serverOf(e).Rise["listener.0.0.0.0_15006.ssl.handshake"] = 0 }, ""},
		{"never a handshake", nil, func(e *mesh.Evidence) {
			serverOf(e).Rise["listener.0.0.0.0_15006.ssl.handshake"] = 0
			serverOf(e).Total["listener.0.0.0.0_15006.ssl.handshake"] = 0
		}, "tls-handshakes"},
		{"a handshake, mTLS off", record.Cell{"mtls": "off"}, func(e *mesh.Evidence) { serverOf(e).Rise["listener.0.0.0.0_15006.ssl.handshake"] = 1 }, "tls-handshakes"},
		{"older handshakes, mTLS off", record.Cell{"mtls": "off"}, func(e *mesh.Evidence) { serverOf(e).Total["listener.0.0.0.0_15006.ssl.handshake"] = 3 }, ""},
		{"a patch release of Envoy", record.Cell{"envoy": "1.39.0"}, func(e *mesh.Evidence) { clientOf(e).State.Version = "1.39.01" }, "client-envoy"},
		{"a build of that Envoy", record.Cell{"envoy": "1.39.0"}, func(e *mesh.Evidence) { clientOf(e).State.Version = "1.39.0-dev" }, ""},
		{"limit of the server alone", nil, func(e *mesh.Evidence) { serverOf(e).State.CPULimit = "2" }, "server-cpu-limit"},
		{"a proxy that says nothing of itself", nil, func(e *mesh.Evidence) { serverOf(e).State = nil }, "server-envoy"},
		{"counters that could not be read", nil, func(e *mesh.Evidence) { clientOf(e).Rise = nil }, "client-sidecar"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := trial(tt.cell)
			tt.change(&e)
			fails(t, e, strings.Fields(tt.fails)...)
		})
	}
}

// The statistics that Verify reads are among those that it requests, and that
// the pods are configured to record.
func TestStatsFilterHasWhatVerifyReads(t *testing.T) {
	filter := compiled(t)
	for name := range trial(nil).Proxies["client_proxy"].Rise {
		if !filter.MatchString(name) {
			t.Errorf("the filter leaves out %s", name)
		}
	}
	for name, passes := range map[string]bool{
		"cluster.inbound|8080||.upstream_rq_total": true, "cluster.inbound|8080||.upstream_cx_total": true, "listener.0.0.0.0_15006.ssl.handshake": true, "server.concurrency": true,
		"cluster.agent.upstream_rq_total": false, "http.inbound_0.0.0.0_8080.downstream_rq_2xx": false, "server.concurrency.more": false,
	} {
		if filter.MatchString(name) != passes {
			t.Errorf("the filter lets %s through: %v", name, !passes)
		}
	}
}
