package linkerd

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Verify checks a trial against the sidecars' own counters: every request of
// the generator passed exactly the proxies that the cell names, encrypted or
// not as in the cell, and the proxies run with the requested threads, log and
// CPU limit.
func (m *Mesh) Verify(e mesh.Evidence) []record.Check {
	checks := mesh.OnTheWay(e)
	sidecars := e.Way.At(record.PlaceSidecar)
	for _, part := range sidecars {
		p := e.Read(part)
		if p == nil {
			continue
		}
		side, peer := record.SideClient, "dst"
		labels := map[string]string{"direction": "outbound", "dst_service": e.Endpoint.Service, "dst_namespace": e.Endpoint.Namespace}
		if part == record.PartServerProxy {
			side, peer = record.SideServer, "src"
			labels = map[string]string{"direction": "inbound", "target_port": strconv.Itoa(e.Endpoint.Port)}
		}
		checks = append(checks, passed(side, e, p.Rise, labels, peer, len(sidecars) == 2)...)
		checks = append(checks, runs(side, e, p)...)
	}
	return checks
}

// passed compares a proxy's counters with what the generator sent, and checks
// how much of it was encrypted.
func passed(side string, e mesh.Evidence, stats map[string]float64, labels map[string]string, peer string, encrypted bool) []record.Check {
	name, what := "request_total", "requests"
	low, high := e.Seen()
	if e.Endpoint.Opaque {
		name, low, high, what = "tcp_open_total", e.Connections-e.Probes, e.Connections, "connections"
		labels = maps.Clone(labels)
		labels["peer"] = peer
	}
	want, slack := float64(low+high)/2, float64(high-low)/2
	all := mesh.SumSeries(stats, name, labels)
	checks := []record.Check{mesh.Expect(side+"-requests", all, want, slack, what+" through the "+side+" proxy")}
	with := maps.Clone(labels)
	with["tls"] = "true"
	if !encrypted {
		want, slack = 0, 0
	}
	return append(checks, mesh.Expect(side+"-tls", mesh.SumSeries(stats, name, with), want, slack, what+" of them with mutual TLS"))
}

// runs checks the proxy's number of worker threads, and its other startup
// settings.
func runs(side string, e mesh.Evidence, p *mesh.Passed) []record.Check {
	var env map[string]*string // null: not text
	if err := json.Unmarshal(p.Config, &env); err != nil {
		return []record.Check{{Name: side + "-environment", Detail: fmt.Sprintf("the proxy's environment cannot be read: %v", err)}}
	}
	of := func(name string) string {
		if v := env[name]; v != nil {
			return *v
		}
		return ""
	}
	var checks []record.Check
	check := func(name, what, got, want string) {
		checks = append(checks, record.Check{Name: side + "-" + name, OK: got == want, Detail: fmt.Sprintf("%s: %q, the cell sets %q", what, got, want)})
	}
	if want := e.Cell[study.FactorConcurrency]; want != "" {
		if workers, ok := p.Total[workersStat]; ok {
			check("concurrency", "worker threads that the proxy runs", strconv.FormatFloat(workers, 'f', -1, 64), want)
		} else {
			check("concurrency", "worker threads configured in the proxy (it does not report how many run)", of(envCoresMax), want)
		}
	}
	check("access-log", "the proxy's access log", of(envLog), accessLog(e.Cell[study.FactorTelemetry]))
	if mtls := e.Cell[study.FactorMTLS]; side == "server" && mtls != "" {
		check("mtls", "whose requests the proxy accepts", of(envPolicy), inboundPolicy(mtls))
	}
	if want := e.Cell[study.FactorCPULimit]; want != "" && p.State != nil {
		check("cpu-limit", "the proxy's CPU limit", p.State.CPULimit, want)
	}
	return checks
}
