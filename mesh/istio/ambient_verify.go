package istio

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Series of a ztunnel's statistics. It counts a connection when it forwards it and when
// the connection ends, and bytes as they pass. On either side, received bytes are those
// that the client sent, without the tunnel's overhead.
const (
	openedTotal   = "istio_tcp_connections_opened_total"
	closedTotal   = "istio_tcp_connections_closed_total"
	failedTotal   = "istio_tcp_connections_failed_total"
	sentTotal     = "istio_tcp_sent_bytes_total"
	receivedTotal = "istio_tcp_received_bytes_total"
)

var ztunnelSeries = []string{openedTotal, closedTotal, failedTotal, sentTotal, receivedTotal}

// Values of the label reporter: the side of a connection that a ztunnel is on.
const (
	asSource      = "source"
	asDestination = "destination"
)

// reported returns the labels of ztunnel's series, on one side, for connections to a
// trial's server. Of a server at an unknown address only the client is known.
func reported(as string, to mesh.Endpoint) map[string]string {
	if to.Unknown && as == asSource {
		return map[string]string{"reporter": as, "source_workload": to.Client, "source_workload_namespace": to.Namespace, "destination_workload": ztunnelUnknown}
	}
	return map[string]string{"reporter": as, "destination_workload": to.Service, "destination_workload_namespace": to.Namespace}
}

// ambientSide is a side of the requests' path through an ambient mesh.
type ambientSide struct{ name, reporter, own string }

var ambientSides = []ambientSide{{record.SideClient, asSource, record.PartClientNode}, {record.SideServer, asDestination, record.PartServerNode}}

// read returns what was observed of the side's ztunnel; nil if requests pass none, or it
// was not read.
func (s ambientSide) read(e mesh.Evidence) *mesh.Passed {
	part := s.own
	if e.Way.Has(record.PartNode) { // it serves both sides
		part = record.PartNode
	}
	if !e.Way.Has(part) {
		return nil
	}
	return e.Read(part)
}

// ambientChecks verifies that each connection of the generator passed ztunnel on the
// client's side and again on the server's, over HBONE in between, together with its
// requests; and that nothing of the trial passed a ztunnel that is not on the path. If
// there is a waypoint, the client's ztunnel connects to that.
func ambientChecks(e mesh.Evidence) []record.Check {
	var checks []record.Check
	var opened, passed []float64
	lost := e.Unknown + e.Probes
	if e.Worker == nil { // probes may have carried requests: each may have been one's connection
		lost = e.Unknown
	}
	if e.Way.Has(record.PartWaypoint) && !e.Endpoint.Opaque && e.Cell[study.FactorKeepAlive] == "false" {
		// A waypoint closes such a connection after its response, by a reset of the HBONE stream.
		// ztunnel counts that as a failed connection.
		lost = e.Connections
	}
	outside := study.Outside(e.Cell)
	for _, side := range ambientSides {
		p := side.read(e)
		if p == nil || outside && side.name == record.SideServer {
			continue
		}
		to := reported(side.reporter, e.Endpoint)
		if e.Way.Has(record.PartWaypoint) {
			if side.name == record.SideServer {
				checks = append(checks, fromWaypoint(e, p, to)...)
				continue
			}
			to = toWaypoint(e.Endpoint)
		}
		all := mesh.SumSeries(p.Rise, openedTotal, to)
		received, sent := mesh.SumSeries(p.Rise, receivedTotal, to), mesh.SumSeries(p.Rise, sentTotal, to)
		opened, passed = append(opened, all), append(passed, received, sent)
		checks = append(checks, between(side.name+"-ztunnel", all, float64(e.Connections-e.Probes), float64(e.Connections), "connections through ztunnel on the "+side.name+"'s side"))
		hbone := maps.Clone(to)
		hbone["connection_security_policy"] = "mutual_tls"
		encrypted := all
		if outside && !e.Way.Has(record.PartWaypoint) {
			encrypted = 0
		}
		checks = append(checks, mesh.Expect(side.name+"-hbone", mesh.SumSeries(p.Rise, openedTotal, hbone), encrypted, 0, "of them over HBONE, with mutual TLS"),
			between(side.name+"-ztunnel-failed", mesh.SumSeries(p.Rise, failedTotal, to), 0, float64(lost), "connections that failed in ztunnel on the "+side.name+"'s side"))
		if side.name == record.SideServer {
			nobody := maps.Clone(to)
			nobody["source_principal"] = "unknown"
			checks = append(checks, mesh.Expect("server-identity", mesh.SumSeries(p.Rise, openedTotal, nobody), 0, 0, "of them from a client that showed ztunnel on the server's side no certificate"))
		}
		if p.Of == 0 && e.Wire != nil { // for a graph only increases are known
			open := mesh.SumSeries(p.Total, openedTotal, to) - mesh.SumSeries(p.Total, closedTotal, to)
			checks = append(checks, between(side.name+"-ztunnel-open", open, 0, float64(e.Connections), "connections that ztunnel on the "+side.name+"'s side has not seen the end of"))
		}
		checks = append(checks, carried(side.name, e, received, sent)...)
	}
	if len(opened) == 2 {
		checks = append(checks, sidesAgree(e, passed)...)
	}
	if e.Worker != nil && (len(opened) == 2 || len(opened) == 1 && outside && !e.Way.Has(record.PartWaypoint)) {
		last := opened[len(opened)-1]
		checks = append(checks, between("worker-connections", e.Worker["connections"], last-float64(e.Probes), last, "connections that the worker accepted, of those that ztunnel opened to it"))
	}
	return append(checks, passedBy(e)...)
}

// between checks that a count lies within bounds.
func between(name string, got, low, high float64, what string) record.Check {
	return mesh.Expect(name, got, (low+high)/2, (high-low)/2, what)
}

// each returns the share of one of several in a sum, rounded up.
func each(sum, of int64) float64 { return math.Ceil(float64(sum) / float64(max(of, 1))) }

// carried compares the bytes that ztunnel forwarded with those that the generator sent and
// read. If every request was answered, they match exactly. For unanswered ones, ztunnel
// may lack the request, or have forwarded a response that was not read. Retries need no
// slack: byte counts include every transmission because they are taken at each write
// rather than per request. Bodies alone are a lower bound: ztunnel does not know about
// frames, and a request that a library resends counts its body once.
func carried(side string, e mesh.Evidence, received, sent float64) []record.Check {
	if e.Wire == nil {
		return []record.Check{weighed(side, e, received+sent)}
	}
	requests, answers := side+"-ztunnel-bytes", side+"-ztunnel-answers"
	what := " through ztunnel on the " + side + "'s side"
	if e.Wire.Bodies {
		least := func(name string, got float64, want int64, of string) record.Check {
			return record.Check{Name: name, OK: got >= float64(want), Detail: fmt.Sprintf("bytes of %s%s: %.0f; their bodies have %d", of, what, got, want)}
		}
		lost := int64(each(e.Wire.Sent, e.Requests+e.Unknown)) * e.Unknown
		return []record.Check{least(requests, received, e.Wire.Sent-lost, "requests"), least(answers, sent, e.Wire.Read, "answers")}
	}
	lost, unread := float64(e.Unknown)*each(e.Wire.Sent, e.Requests+e.Unknown), float64(e.Unknown)*each(e.Wire.Read, e.Requests)
	return []record.Check{
		between(requests, received, float64(e.Wire.Sent)-lost, float64(e.Wire.Sent), "bytes of requests"+what),
		between(answers, sent, float64(e.Wire.Read), float64(e.Wire.Read)+unread, "bytes of answers"+what),
	}
}

// weighed checks what is known without the generator's byte counts: the minimum size of a
// request, which is its body unless the cell specifies another size.
func weighed(side string, e mesh.Evidence, bytes float64) record.Check {
	least := float64(e.Requests)
	if f, ok := study.FactorByName(study.FactorPayload); ok {
		if payload, ok := f.Value(e.Cell[study.FactorPayload]); ok {
			least *= max(1, payload)
		}
	}
	return record.Check{Name: side + "-ztunnel-bytes", OK: bytes >= least,
		Detail: fmt.Sprintf("bytes through ztunnel on the %s's side: %.0f; %d requests have %.0f at least", side, bytes, e.Requests, least)}
}

// sidesAgree checks that what entered on the client's side left on the server's. passed
// has the bytes of requests and responses of the first, then of the second. The sides may
// differ by what was in flight when a connection broke: an unanswered request, or one that
// a library resent over a new connection. If the generator's bytes are known, it sends
// requests itself and never resends: such a request was then not answered.
func sidesAgree(e mesh.Evidence, passed []float64) []record.Check {
	broken := e.Unknown
	if e.Wire == nil && broken > 0 {
		return nil
	}
	slack := 0.0
	if e.Wire != nil {
		sent, read := e.Wire.Sent, e.Wire.Read
		if e.Wire.Bodies { // which are smaller than what passed
			broken += e.Remade
			sent, read = max(sent, int64(passed[0])), max(read, int64(passed[3]))
		}
		slack = float64(broken) * max(each(sent, e.Requests+e.Unknown), each(read, e.Requests))
	}
	return []record.Check{
		mesh.Expect("ztunnel-sides", passed[2], passed[0], slack, "bytes of requests through ztunnel on the server's side, those of the client's expected"),
		mesh.Expect("ztunnel-sides-answers", passed[1], passed[3], slack, "bytes of answers through ztunnel on the client's side, those of the server's expected"),
	}
}

// passedBy checks that no connection to the trial's server passed a ztunnel that is not on
// its path: a namespace, or a policy of the cluster, may add pods to the mesh that the
// cell excludes.
func passedBy(e mesh.Evidence) []record.Check {
	var checks []record.Check
	for _, node := range slices.Sorted(maps.Keys(e.Beside)) {
		p := e.Beside[node]
		if p == nil || p.Rise == nil {
			continue
		}
		got := mesh.SumSeries(p.Rise, openedTotal, reported(asSource, e.Endpoint)) + mesh.SumSeries(p.Rise, openedTotal, reported(asDestination, e.Endpoint))
		checks = append(checks, mesh.Expect("ztunnel-beside", got, 0, 0, "connections of the trial through ztunnel on node "+node+", which is not on the requests' way"))
	}
	return checks
}

// Carried returns the connections to a trial's server that a ztunnel forwarded: Opened on
// the client's side, Accepted on the server's.
func (*Mesh) Carried(rise map[string]float64, to mesh.Endpoint) record.Connections {
	return record.Connections{
		Opened:   int64(mesh.SumSeries(rise, openedTotal, reported(asSource, to)) + mesh.SumSeries(rise, openedTotal, toWaypoint(to))),
		Accepted: int64(mesh.SumSeries(rise, openedTotal, reported(asDestination, to))),
	}
}
