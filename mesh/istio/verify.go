package istio

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// adminLines limits the log lines caused by reading the counters: Envoy's admin
// interface logs each of its requests through the same sink.
const adminLines = 10

// Verify checks a trial against the sidecars' own counters: every request of the
// generator passed exactly the proxies that the cell names, mTLS and the access log
// were on or off as in the cell, the proxies have the requested version, thread
// count and CPU limit, and their configuration has what no counter shows. For
// ztunnels it checks connections, which is what they count; for a gateway the
// requests that it forwarded.
func (m *Mesh) Verify(e mesh.Evidence) []record.Check {
	checks := mesh.OnTheWay(e)
	for _, part := range e.Way.At(record.PlaceSidecar) {
		p := e.Read(part)
		if p == nil {
			continue
		}
		side, prefix := record.SideClient, fromClient(e)
		if part == record.PartServerProxy {
			side, prefix = record.SideServer, fmt.Sprintf("cluster.inbound|%d|", inboundPort(e))
		}
		checks = append(checks, passed(side+"-requests", e, p.Rise, prefix, "the "+side+" proxy")...)
		checks = append(checks, m.levers(side, e, p)...)
		checks = append(checks, configured(side, e, p.Config)...)
		if part == record.PartServerProxy {
			checks = append(checks, verifyFilters(e, p)...)
		}
	}
	checks = append(checks, ambientChecks(e)...)
	checks = append(checks, waypointChecks(e)...)
	checks = append(checks, gatewayChecks(e)...)
	checks = append(checks, egressChecks(e)...)
	return append(checks, tlsChecks(e)...)
}

// passed compares a proxy's upstream counters with what the generator sent. The messages of
// streams appear only as bytes.
func passed(name string, e mesh.Evidence, stats map[string]float64, prefix, who string) []record.Check {
	got, what := sum(stats, prefix, ".upstream_rq_total"), "requests through "
	low, high := e.Seen()
	if opaque(e) {
		got, low, high, what = sum(stats, prefix, ".upstream_cx_total"), e.Connections-e.Probes, e.Connections, "connections through "
	}
	checks := []record.Check{mesh.Expect(name, got, float64(low+high)/2, float64(high-low)/2, what+who)}
	if e.Endpoint.Streams && e.Wire != nil && !opaque(e) {
		bytes := func(suffix, way, of string, least int64) {
			got := sum(stats, prefix, suffix)
			checks = append(checks, record.Check{Name: name + "-" + way, OK: got >= float64(least), Detail: fmt.Sprintf("bytes of %s through %s: %.0f; the messages have %d", of, who, got, least)})
		}
		bytes(".upstream_cx_tx_bytes_total", "sent", "streams to the server", e.Wire.Sent-int64(each(e.Wire.Sent, e.Requests+e.Unknown))*e.Unknown)
		bytes(".upstream_cx_rx_bytes_total", "read", "streams from the server", e.Wire.Read)
	}
	return checks
}

// levers checks the proxy's properties and whether it logged.
func (m *Mesh) levers(side string, e mesh.Evidence, p *mesh.Passed) []record.Check {
	state := p.State
	var checks []record.Check
	if want, err := strconv.ParseFloat(e.Cell["concurrency"], 64); err == nil {
		checks = append(checks, mesh.Expect(side+"-concurrency", p.Total["server.concurrency"], want, 0, "worker threads of the proxy"))
	}
	logged, admin := p.Rise["filesystem.write_buffered"], adminLines*max(1, p.Of)
	if withAccessLog(e.Cell["telemetry"]) {
		want := float64(e.Requests)
		late := opaque(e) || e.Endpoint.Streams // a connection or stream is logged when it ends
		if late {
			want = 0
		}
		checks = append(checks, record.Check{
			Name: side + "-access-log", OK: logged >= want && (logged > 0 || late),
			Detail: fmt.Sprintf("access log lines: %.0f for %.0f requests", logged, want),
		})
	} else {
		checks = append(checks, record.Check{
			Name: side + "-access-log", OK: logged <= float64(admin),
			Detail: fmt.Sprintf("access log lines: %.0f, expected none (up to %d may be of the proxy's admin interface)", logged, admin),
		})
	}
	if state == nil {
		return append(checks, record.Check{Name: side + "-envoy", Detail: "the proxy did not report its version"})
	}
	if want := e.Cell["envoy"]; want != "" && want != "default" {
		checks = append(checks, record.Check{
			Name: side + "-envoy", OK: isVersion(state.Version, want),
			Detail: fmt.Sprintf("the proxy runs Envoy %s, the cell sets %s", state.Version, want),
		})
	}
	if want := e.Cell["cpu_limit"]; want != "" {
		checks = append(checks, record.Check{
			Name: side + "-cpu-limit", OK: state.CPULimit == want,
			Detail: fmt.Sprintf("the proxy's CPU limit is %s, the cell sets %s", state.CPULimit, want),
		})
	}
	return checks
}

// isVersion reports whether a proxy of version got is of version want, or a build
// of it, such as 1.39.0-dev of 1.39.0.
func isVersion(got, want string) bool {
	rest, ok := strings.CutPrefix(got, want)
	return ok && (rest == "" || rest[0] == '-' || rest[0] == '+')
}

// tlsChecks verifies mTLS twice: by the handshakes that the server's proxy counted,
// and by the certificate header of each request that reached the worker.
func tlsChecks(e mesh.Evidence) []record.Check {
	client, server := e.Way.Has(record.PartClientProxy), e.Way.Has(record.PartServerProxy)
	encrypted := client && server && e.Cell["mtls"] != "off"
	var checks []record.Check
	if server {
		seen := e.Proxies[record.PartServerProxy]
		if seen == nil {
			seen = &mesh.Passed{}
		}
		// Proxies keep connections between trials: an encrypted trial may use one
		// with an older handshake, whereas a plain one makes none.
		all, now := sum(seen.Total, "listener.", ".ssl.handshake"), sum(seen.Rise, "listener.", ".ssl.handshake")
		ok := encrypted && all > 0 || !encrypted && now == 0
		checks = append(checks, record.Check{Name: "tls-handshakes", OK: ok,
			Detail: fmt.Sprintf("TLS handshakes at the server proxy: %.0f in this trial, %.0f since it started; the cell sets mTLS to %s", now, all, word(encrypted))})
	}
	if e.Endpoint.Opaque {
		return checks // there is no header to check
	}
	want, slack := 0.0, 0.0
	if encrypted || study.Leaving(e.Cell) { // an egress gateway accepts only mutual TLS
		want, slack = float64(e.Requests)+float64(e.Unknown)/2, float64(e.Unknown)/2
	}
	return append(checks, mesh.Expect("client-certificates", e.Worker["client_cert"], want, slack,
		"requests that reached the worker with a verified client certificate"))
}

func word(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// sum returns the total of the counters whose name has the prefix and the suffix.
func sum(stats map[string]float64, prefix, suffix string) float64 {
	total := 0.0
	for name, value := range stats {
		if strings.HasPrefix(name, prefix) && strings.HasSuffix(name, suffix) {
			total += value
		}
	}
	return total
}
