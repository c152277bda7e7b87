package study

import (
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
)

// Meshes that the code compares with.
const (
	MeshNone    = "none"
	MeshIstio   = "istio"
	MeshLinkerd = "linkerd"
)

// A Mesh is a mesh that studies can name.
type Mesh struct {
	Name string
	// Carriers lists what can carry requests in the mesh.
	Carriers []Carrier
	// Groups lists the API groups whose objects configure its proxies. Groups that end in one of
	// them count too.
	Groups []string
}

// A Carrier is what carries a cell's requests: a level of the factor sidecars.
type Carrier struct {
	Level string
	// Way is the path of requests. It has separate proxies for the client's and the server's node,
	// even if a run has both pods on one node.
	Way record.Way
	// Subject names the carrier in a sentence; Many means that the name is plural.
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

// meshes is the table of meshes. A level means the same in all of them.
var meshes = []Mesh{
	{MeshNone, []Carrier{byNone}, nil},
	{MeshIstio, append(slices.Concat(bySidecar, byZtunnel), byGateway), []string{"istio.io", gatewayAPI}},
	{MeshLinkerd, bySidecar, []string{"linkerd.io", gatewayAPI}},
}

const gatewayAPI = "gateway.networking.k8s.io"

// ConfiguresProxies reports whether objects of an API version configure a mesh's proxies.
func ConfiguresProxies(version string) bool {
	group, _, _ := strings.Cut(version, "/")
	return slices.ContainsFunc(meshes, func(m Mesh) bool {
		return slices.ContainsFunc(m.Groups, func(end string) bool { return strings.HasSuffix("."+group, "."+end) })
	})
}

// AddMesh registers a mesh that is not in the table. Call it at program start, before any other use
// of this package.
func AddMesh(m Mesh) { meshes = append(meshes, m) }

// Meshes lists the names of the meshes that a study can name.
func Meshes() []string {
	out := make([]string, len(meshes))
	for i, m := range meshes {
		out[i] = m.Name
	}
	return out
}

// carriers returns the carriers of one mesh, or of all for "".
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

// CarrierLevels returns the levels of the factor sidecars in one mesh, or in all for "".
func CarrierLevels(mesh string) []string {
	var out []string
	for _, c := range carriers(mesh) {
		out = append(out, c.Level)
	}
	return out
}

// CarrierOf returns a carrier by its level, or one without proxies for no level.
func CarrierOf(level string) Carrier {
	for _, c := range carriers("") {
		if c.Level == level {
			return c
		}
	}
	return Carrier{}
}

// WayOf returns the path of a data-plane cell's requests. A server outside the mesh has no proxy.
func WayOf(cell record.Cell) record.Way {
	way := CarrierOf(cell[FactorSidecars]).Way
	if !Outside(cell) || len(way) == 0 {
		return way
	}
	way = slices.DeleteFunc(slices.Clone(way), func(part string) bool {
		p, _ := record.ProxyOf(part)
		return p.Side == record.SideServer
	})
	if Leaving(cell) {
		way = append(way, record.PartGateway)
	}
	return way
}

// WayOfTrial returns the path that a trial's requests took. Both pods of a run can be on one node.
func WayOfTrial(t *record.Trial) record.Way {
	if t.Way != nil {
		return t.Way
	}
	return WayOf(t.Cell)
}

// CarrierSubject formats a level of the factor sidecars for a sentence.
func CarrierSubject(level string) (name string, many bool) {
	if c := CarrierOf(level); c.Subject != "" && level != SidecarsNone {
		return c.Subject, c.Many
	}
	return FactorSidecars + " " + level, false
}

// Proxied reports whether a cell has a sidecar anywhere, so that sidecar settings apply.
func Proxied(cell record.Cell) bool { return len(WayOf(cell).At(record.PlaceSidecar)) > 0 }

// Ambient reports whether a cell's pods are in Istio's ambient mesh.
func Ambient(cell record.Cell) bool {
	return cell[FactorSidecars] == SidecarsAmbient || Waypoint(cell)
}

// Waypoint reports whether the server's Service uses a waypoint in a cell.
func Waypoint(cell record.Cell) bool { return cell[FactorSidecars] == SidecarsWaypoint }

// Entering reports whether a cell's requests enter through an ingress gateway of the mesh.
func Entering(cell record.Cell) bool { return cell[FactorSidecars] == SidecarsGateway }

// Outside reports whether a cell's server is outside the mesh.
func Outside(cell record.Cell) bool {
	switch cell[FactorDestination] {
	case "", DestinationInside, NotApplicable:
		return false
	}
	return true
}

// Leaving reports whether a cell's requests leave the mesh through an egress gateway.
func Leaving(cell record.Cell) bool { return cell[FactorDestination] == DestinationEgress }

// HasClientProxy reports whether a cell's load pod has a sidecar.
func HasClientProxy(cell record.Cell) bool { return WayOf(cell).Has(record.PartClientProxy) }

// HasServerProxy reports whether a cell's worker pod has a sidecar.
func HasServerProxy(cell record.Cell) bool { return WayOf(cell).Has(record.PartServerProxy) }

// Lacks reports whether a part is a shared proxy that no cell's requests can pass.
func (s *Study) Lacks(part string) bool {
	p, proxy := record.ProxyOf(part)
	return proxy && p.Place.Shared() && !slices.ContainsFunc(s.Levels(FactorSidecars), func(level string) bool {
		way := CarrierOf(level).Way
		return way.Has(part) || way.OnOneNode().Has(part)
	}) && (part != record.PartGateway || !slices.Contains(s.Levels(FactorDestination), DestinationEgress))
}
