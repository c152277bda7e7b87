package study

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// Meshes that code compares with.
const (
	MeshNone    = "none"
	MeshIstio   = "istio"
	MeshLinkerd = "linkerd"
)

// A Mesh is one that studies can name.
type Mesh struct {
	Name string
	// Carriers are who can carry requests in it.
	Carriers []Carrier
	// Groups are those of the API whose objects configure its proxies, with all that end in them.
	Groups []string
}

// A Carrier says who carries a cell's requests: it is a level of the factor
// sidecars.
type Carrier struct {
	Level string
	// Way is what requests pass. A proxy of the client's node and one of the
	// server's stand there even if a run has both pods on one node.
	Way record.Way
	// Subject names it in a sentence, Many says that this is a plural.
	Subject string
	Many    bool
}

var (
	byNone    = Carrier{Level: SidecarsNone, Subject: "no sidecar"}
	bySidecar = []Carrier{byNone,
		{SidecarsServer, record.Way{record.PartServerProxy}, "the server's sidecar", false},
		{SidecarsClient, record.Way{record.PartClientProxy}, "the client's sidecar", false},
		{SidecarsBoth, record.Way{record.PartClientProxy, record.PartServerProxy}, "both sidecars", true}}
	byGateway = Carrier{SidecarsGateway, record.Way{record.PartGateway}, "the gateway", false}
	byZtunnel = []Carrier{
		{SidecarsAmbient, record.Way{record.PartClientNode, record.PartServerNode}, "ztunnel", false},
		{SidecarsWaypoint, record.Way{record.PartClientNode, record.PartWaypoint, record.PartServerNode}, "ztunnel with a waypoint", false}}
)

// meshes is the table of meshes. A level means the same in each of them.
var meshes = []Mesh{
	{MeshNone, []Carrier{byNone}, nil},
	{MeshIstio, append(slices.Concat(bySidecar, byZtunnel), byGateway), []string{"istio.io", gatewayAPI}},
	{MeshLinkerd, bySidecar, []string{"linkerd.io", gatewayAPI}},
}

const gatewayAPI = "gateway.networking.k8s.io"

// ConfiguresProxies reports whether objects of a version of the API configure a mesh's proxies.
func ConfiguresProxies(version string) bool {
	group, _, _ := strings.Cut(version, "/")
	return slices.ContainsFunc(meshes, func(m Mesh) bool {
		return slices.ContainsFunc(m.Groups, func(end string) bool { return strings.HasSuffix("."+group, "."+end) })
	})
}

// AddMesh makes a mesh known that does not come with the program. It is for
// the beginning of a program, before anything else is asked of this package.
func AddMesh(m Mesh) { meshes = append(meshes, m) }

// Meshes lists the names of those a study can name.
func Meshes() []string {
	out := make([]string, len(meshes))
	for i, m := range meshes {
		out[i] = m.Name
	}
	return out
}

// carriers are those of one mesh, or of all for "".
func carriers(mesh string) []Carrier {
	var out []Carrier
	for _, m := range meshes {
		for _, c := range m.Carriers {
			if (mesh == "" || m.Name == mesh) && !slices.ContainsFunc(out, func(o Carrier) bool { return o.Level == c.Level }) {
				out = append(out, c)
			}
		}
	}
	return out
}

// carrierLevels are the levels of the factor sidecars in one mesh, or in all
// for "".
func carrierLevels(mesh string) []string {
	var out []string
	for _, c := range carriers(mesh) {
		out = append(out, c.Level)
	}
	return out
}

// carrierOf is a carrier by its level; one without proxies for no level.
func carrierOf(level string) Carrier {
	for _, c := range carriers("") {
		if c.Level == level {
			return c
		}
	}
	return Carrier{}
}

// WayOf is the way of the requests of a cell of the data plane.
func WayOf(cell record.Cell) record.Way { return carrierOf(cell[FactorSidecars]).Way }

// WayOfTrial is the way that a trial's requests went. Both pods of a run can
// be on one node.
func WayOfTrial(t *record.Trial) record.Way {
	if t.Way != nil {
		return t.Way
	}
	return WayOf(t.Cell)
}

// carrierSubject puts a level of the factor sidecars in words.
func carrierSubject(level string) (name string, many bool) {
	if c := carrierOf(level); c.Subject != "" && level != SidecarsNone {
		return c.Subject, c.Many
	}
	return FactorSidecars + " " + level, false
}

// proxied says that a cell has a sidecar somewhere: what sidecars are asked
// for means something there.
func proxied(cell record.Cell) bool { return len(WayOf(cell).At(record.PlaceSidecar)) > 0 }

// Ambient reports whether a cell's pods are in Istio's ambient mesh.
func Ambient(cell record.Cell) bool {
	return cell[FactorSidecars] == SidecarsAmbient || Waypoint(cell)
}

// Waypoint reports whether the server's Service uses a waypoint there.
func Waypoint(cell record.Cell) bool { return cell[FactorSidecars] == SidecarsWaypoint }

// Scattered reports whether a cell's several generators may be on both sides of its
// worker's node, where what is on nodes carries their requests.
func Scattered(cell record.Cell) bool {
	return GeneratorsIn(cell) > 1 && placeOf(cell) == "" && len(WayOf(cell).At(record.PlaceNode)) > 0
}

// Entering reports whether a cell's requests come in by an ingress gateway of the mesh.
func Entering(cell record.Cell) bool { return cell[FactorSidecars] == SidecarsGateway }

// checkGatewayCells finds requests that a gateway could not tell apart by their host.
func (d *Decoder) checkGatewayCells(p *Plan) {
	for _, cell := range p.Cells {
		if !Entering(cell) {
			continue
		}
		if p.Study.Load.TLS {
			d.Fail(d.Pos("load", "tls"), CodeConflict, "leave it out, or the level "+SidecarsGateway, "the gateway takes requests in plain text: it has no certificate for load.tls")
			return
		}
		if name := cell[FactorProtocol]; !protocol.Of(name).Headers {
			d.Fail(d.Pos("factors", FactorProtocol), CodeConflict, fmt.Sprintf("as exclude: [{%s: %s, %s: %s}]", FactorSidecars, SidecarsGateway, FactorProtocol, name),
				"the gateway knows requests by their host, which protocol %s does not carry", name)
			return
		}
	}
}

// HasClientProxy reports whether a cell's load pod has a sidecar.
func HasClientProxy(cell record.Cell) bool { return WayOf(cell).Has(record.PartClientProxy) }

// HasServerProxy reports whether a cell's worker pod has a sidecar.
func HasServerProxy(cell record.Cell) bool { return WayOf(cell).Has(record.PartServerProxy) }

// checkCarriers finds who cannot carry requests in the study's mesh.
func (d *Decoder) checkCarriers(s *Study) {
	can := carrierLevels(s.Mesh)
	for _, level := range s.Levels(FactorSidecars) {
		switch {
		case slices.Contains(can, level):
			continue
		case s.Mesh == MeshNone:
			d.Fail(d.Pos("mesh"), CodeConflict, "sidecars must be none, or the mesh istio", "mesh none has no sidecars, but sidecars: %s is asked for", level)
		default:
			d.Fail(d.Pos("mesh"), CodeConflict, "one of "+strings.Join(can, ", "), "mesh %s cannot carry requests by sidecars: %s", s.Mesh, level)
		}
		break
	}
}
