package study

import (
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
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

// CarrierLevels are the levels of the factor sidecars in one mesh, or in all
// for "".
func CarrierLevels(mesh string) []string {
	var out []string
	for _, c := range carriers(mesh) {
		out = append(out, c.Level)
	}
	return out
}

// CarrierOf is a carrier by its level; one without proxies for no level.
func CarrierOf(level string) Carrier {
	for _, c := range carriers("") {
		if c.Level == level {
			return c
		}
	}
	return Carrier{}
}

// WayOf is the way of the requests of a cell of the data plane.
func WayOf(cell record.Cell) record.Way { return CarrierOf(cell[FactorSidecars]).Way }

// WayOfTrial is the way that a trial's requests went. Both pods of a run can
// be on one node.
func WayOfTrial(t *record.Trial) record.Way {
	if t.Way != nil {
		return t.Way
	}
	return WayOf(t.Cell)
}

// CarrierSubject puts a level of the factor sidecars in words.
func CarrierSubject(level string) (name string, many bool) {
	if c := CarrierOf(level); c.Subject != "" && level != SidecarsNone {
		return c.Subject, c.Many
	}
	return FactorSidecars + " " + level, false
}

// proxied says that a cell has a sidecar somewhere: what sidecars are asked
// for means something there.
func Proxied(cell record.Cell) bool { return len(WayOf(cell).At(record.PlaceSidecar)) > 0 }

// Ambient reports whether a cell's pods are in Istio's ambient mesh.
func Ambient(cell record.Cell) bool {
	return cell[FactorSidecars] == SidecarsAmbient || Waypoint(cell)
}

// Waypoint reports whether the server's Service uses a waypoint there.
func Waypoint(cell record.Cell) bool { return cell[FactorSidecars] == SidecarsWaypoint }

// Entering reports whether a cell's requests come in by an ingress gateway of the mesh.
func Entering(cell record.Cell) bool { return cell[FactorSidecars] == SidecarsGateway }

// HasClientProxy reports whether a cell's load pod has a sidecar.
func HasClientProxy(cell record.Cell) bool { return WayOf(cell).Has(record.PartClientProxy) }

// HasServerProxy reports whether a cell's worker pod has a sidecar.
func HasServerProxy(cell record.Cell) bool { return WayOf(cell).Has(record.PartServerProxy) }

// Lacks says that a part is a shared proxy that no cell's requests can pass.
func (s *Study) Lacks(part string) bool {
	p, proxy := record.ProxyOf(part)
	return proxy && p.Place.Shared() && !slices.ContainsFunc(s.Levels(FactorSidecars), func(level string) bool {
		way := CarrierOf(level).Way
		return way.Has(part) || way.OnOneNode().Has(part)
	})
}
