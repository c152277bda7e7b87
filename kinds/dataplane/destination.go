package dataplane

import (
	"fmt"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// destinationFactor is where the server is, as the mesh sees it. Without a mesh all levels outside
// are one: there is no ServiceEntry, and no gateway.
var destinationFactor = func() study.Factor {
	f := study.Choice(study.FactorDestination, study.ScopePods, study.DestinationInside,
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
		})
	f.Implied = true
	return f
}()

// checkDestinations finds cells whose requests cannot leave the mesh in that way.
func checkDestinations(d *study.Decoder, p *study.Plan) {
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
