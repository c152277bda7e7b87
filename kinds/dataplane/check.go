package dataplane

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// checkGatewayCells finds requests that a gateway cannot distinguish by host.
func checkGatewayCells(d *study.Decoder, p *study.Plan) {
	for _, cell := range p.Cells {
		if !study.Entering(cell) {
			continue
		}
		if p.Study.Load.TLS {
			d.Fail(d.Pos("load", "tls"), study.CodeConflict, "leave it out, or the level "+study.SidecarsGateway, "the gateway accepts only plain text: it has no certificate for load.tls")
			return
		}
		if name := cell[study.FactorProtocol]; !protocol.Of(name).Headers {
			d.Fail(d.Pos("factors", study.FactorProtocol), study.CodeConflict, fmt.Sprintf("leave such cells out: exclude: [{%s: %s, %s: %s}]", study.FactorSidecars, study.SidecarsGateway, study.FactorProtocol, name),
				"the gateway routes requests by host, which protocol %s does not carry", name)
			return
		}
	}
}

// checkStreamCells finds settings that streams of messages do not have.
func checkStreamCells(d *study.Decoder, p *study.Plan) {
	for _, cell := range p.Cells {
		name := cell[study.FactorProtocol]
		switch {
		case !protocol.Of(name).Streams:
			continue
		case p.Study.Load.TLS:
			d.Fail(d.Pos("load", "tls"), study.CodeConflict, "leave it out, or protocol "+name, "the generator sends streams of protocol %s in plain text only", name)
		case cell[study.FactorKeepAlive] == "false":
			d.Fail(p.Study.Place(study.FactorKeepAlive), study.CodeConflict, fmt.Sprintf("leave such cells out: exclude: [{%s: %s, %s: false}]", study.FactorProtocol, name, study.FactorKeepAlive),
				"protocol %s sends all messages of a connection on one stream, which stays open", name)
		default:
			continue
		}
		return
	}
}

// checkCarriers finds levels of sidecars that the study's mesh does not have.
func checkCarriers(d *study.Decoder, s *study.Study) {
	can := study.CarrierLevels(s.Mesh)
	for _, level := range s.Levels(study.FactorSidecars) {
		switch {
		case slices.Contains(can, level):
			continue
		case s.Mesh == study.MeshNone:
			d.Fail(d.Pos("mesh"), study.CodeConflict, "set sidecars: none, or mesh: istio", "mesh none has no sidecars, but sidecars is %s", level)
		default:
			d.Fail(d.Pos("mesh"), study.CodeConflict, "one of "+strings.Join(can, ", "), "mesh %s does not support sidecars: %s", s.Mesh, level)
		}
		break
	}
}

// checkSizedWays rejects a section sizing if no cell carries requests at both ends, or a server is
// outside the mesh.
func checkSizedWays(d *study.Decoder, s *study.Study) {
	if !d.CheckSizing(s) {
		return
	}
	if !slices.ContainsFunc(s.Written(study.FactorSidecars), func(level string) bool { return study.Carries(study.CarrierOf(level).Way) }) {
		d.FailSizing("set factors: {sidecars: [none, both, ambient]}", "sizing compares ways of carrying requests, and no cell carries them at both ends")
		return
	}
	if slices.ContainsFunc(s.Levels(study.FactorDestination), func(level string) bool { return study.Outside(record.Cell{study.FactorDestination: level}) }) {
		d.FailSizing("leave "+study.FactorDestination+" out", "sizing is about requests within the mesh, and some servers are outside it")
	}
}

// speaks returns the first protocol among the study's levels that satisfies is; "" if there is
// none.
func speaks(s *study.Study, is func(protocol.Protocol) bool) string {
	for _, name := range s.Levels(study.FactorProtocol) {
		if is(protocol.Of(name)) {
			return name
		}
	}
	return ""
}

// headless reports whether a protocol has no headers: to a sidecar such requests are bytes of a
// connection.
func headless(p protocol.Protocol) bool { return !p.Headers }

// destinationFactor is where the server is, as the mesh sees it. Without a mesh all levels outside
// are one: there is no ServiceEntry, and no gateway.
var destinationFactor = study.Choice(study.FactorDestination, study.ScopePods, study.DestinationInside,
	"Where the server is: inside the mesh; outside at an address that the mesh does not know (passthrough); outside with a ServiceEntry that has its address (STATIC) or its name (DNS); or behind an egress gateway, which has a DNS ServiceEntry and which clients' sidecars reach over mutual TLS. For Istio, with sidecars none, client, ambient or, with a ServiceEntry, waypoint.",
	study.DestinationInside, study.DestinationOutside, study.DestinationStatic, study.DestinationDNS, study.DestinationEgress).
	Labelled(study.Says("%s", study.DestinationInside, "inside the mesh", study.DestinationOutside, "outside, unknown", study.DestinationStatic, "outside, static entry", study.DestinationDNS, "outside, DNS entry", study.DestinationEgress, "egress gateway")).
	Phrased(study.Says("%s", study.DestinationInside, "inside the mesh", study.DestinationOutside, "outside the mesh", study.DestinationStatic, "outside with a static entry", study.DestinationDNS, "outside with a DNS entry", study.DestinationEgress, "through an egress gateway")).
	Shortened(study.Says("%s")).
	Becoming(func(cell record.Cell) string {
		if study.Outside(cell) && cell[study.FactorSidecars] == study.SidecarsNone {
			return study.DestinationOutside
		}
		return cell[study.FactorDestination]
	}).OmittedAtDefault()

// maxOutside is how many virtual addresses there are for servers outside the mesh.
const maxOutside = 254

// checkDestinations finds cells whose requests cannot leave the mesh in that way.
func checkDestinations(d *study.Decoder, p *study.Plan) {
	outside := 0
	for _, v := range ServerVariants(p) {
		if v.Outside != "" {
			outside++
		}
	}
	if outside > maxOutside {
		d.Fail(p.Study.Place(study.FactorDestination), study.CodeLimit, "use several studies", "the cells need %d servers outside the mesh; the limit is %d", outside, maxOutside)
		return
	}
	for _, cell := range p.Cells {
		level, sidecars := cell[study.FactorDestination], cell[study.FactorSidecars]
		if !study.Outside(cell) {
			continue
		}
		at := p.Study.Place(study.FactorDestination)
		leaveOut := fmt.Sprintf("leave such cells out: exclude: [{%s: %s, %s: %s}]", study.FactorSidecars, sidecars, study.FactorDestination, level)
		if p.Study.Mesh != study.MeshIstio {
			d.Fail(at, study.CodeConflict, "leave it out, or mesh: istio", "%s %s works only with Istio, and the mesh is %s", study.FactorDestination, level, p.Study.Mesh)
			return
		}
		why, hint := "", leaveOut
		switch {
		case sidecars == study.SidecarsBoth || sidecars == study.SidecarsServer:
			why, hint = "a server outside the mesh has no sidecar", "set sidecars: client, or "+leaveOut
		case study.Entering(cell):
			why = "an ingress gateway leads into the mesh"
		case study.Waypoint(cell) && level == study.DestinationOutside:
			why = "a waypoint serves Services and ServiceEntries, and an unknown address is neither"
		case study.Ambient(cell) && study.Leaving(cell):
			why = "ztunnel has no routes to an egress gateway; in an ambient mesh a waypoint takes its place"
			hint = fmt.Sprintf("set sidecars: %s and %s: %s, or %s", study.SidecarsWaypoint, study.FactorDestination, study.DestinationDNS, leaveOut)
		case cell[FactorInterception] == InterceptionNone:
			why, hint = "a sidecar without redirection has a port only for Services", "leave "+FactorInterception+": "+InterceptionNone+" out"
		}
		if why != "" {
			d.Fail(at, study.CodeConflict, hint, "%s: %s, with %s: %s: %s", study.FactorDestination, level, study.FactorSidecars, sidecars, why)
			return
		}
	}
}
