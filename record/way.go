package record

import "slices"

// Place is where a proxy runs, which determines whose requests pass it.
type Place string

// Places of proxies.
const (
	PlaceSidecar  Place = "sidecar"  // in a pod: passed by the pod's own requests
	PlaceNode     Place = "node"     // on a node: passed by the requests of all its pods
	PlaceWaypoint Place = "waypoint" // a separate Deployment: passed by requests to the Services that use it
	PlaceGateway  Place = "gateway"  // at the edge of the mesh: passed by requests that enter or leave there
)

// Shared reports whether a proxy at this place also serves other workloads' requests, so that
// its use cannot be attributed to one workload.
func (p Place) Shared() bool { return p != PlaceSidecar }

// Sides of a request: whose pod or node a proxy belongs to.
const (
	SideClient = "client"
	SideServer = "server"
)

// Parts of a trial that are proxies.
const (
	PartClientProxy = "client_proxy" // the client pod's sidecar (with Istio, Envoy and its agent)
	PartServerProxy = "server_proxy"

	PartClientNode = "client_node_proxy" // on the client pod's node
	PartServerNode = "server_node_proxy"
	PartNode       = "node_proxy" // on the node of both pods, if they share one
	PartWaypoint   = "waypoint"
	PartGateway    = "gateway"
)

// Parts of a trial that are not on the path of its requests.
const (
	// PartIdleNode is the proxies on the trial's nodes that its requests bypass, in a run
	// where other cells' requests pass them.
	PartIdleNode = "idle_node_proxy"
	// PartNodeAgent is the agents on the same nodes that connect pods to their node's proxy.
	PartNodeAgent = "node_agent"
	// PartSink is the service that proxies ask or tell about requests.
	PartSink = "sink"
)

// Proxy is a proxy that requests can pass.
type Proxy struct {
	Part  string // its name among the parts of a trial
	Place Place
	Side  string // whose pod or node it belongs to; "" for neither or both
	// Name is the short name used in columns; Noun names the proxy in a sentence.
	Name, Noun string
}

// Proxies lists all proxies, in the order of reports.
var Proxies = []Proxy{
	{PartClientProxy, PlaceSidecar, SideClient, "client's proxy", "the client's sidecar"},
	{PartServerProxy, PlaceSidecar, SideServer, "server's proxy", "the server's sidecar"},
	{PartNode, PlaceNode, "", "node's proxy", "the node's proxy"},
	{PartClientNode, PlaceNode, SideClient, "client's node's proxy", "the proxy of the client's node"},
	{PartServerNode, PlaceNode, SideServer, "server's node's proxy", "the proxy of the server's node"},
	{PartWaypoint, PlaceWaypoint, "", "waypoint", "the waypoint"},
	{PartGateway, PlaceGateway, "", "gateway", "the gateway"},
}

// ProxyOf returns the proxy that is a part of a trial; false for other parts.
func ProxyOf(part string) (Proxy, bool) {
	i := slices.IndexFunc(Proxies, func(p Proxy) bool { return p.Part == part })
	if i < 0 {
		return Proxy{}, false
	}
	return Proxies[i], true
}

// ProxyParts returns the parts of trials that are proxies, in the order of reports.
func ProxyParts() []string {
	out := make([]string, len(Proxies))
	for i, p := range Proxies {
		out[i] = p.Part
	}
	return out
}

// Way lists the proxies that a request passes, by part and in order. A proxy that it passes
// twice is listed twice.
type Way []string

// Has reports whether requests pass a proxy.
func (w Way) Has(part string) bool { return slices.Contains(w, part) }

// Shared reports whether requests pass a shared proxy.
func (w Way) Shared() bool {
	return slices.ContainsFunc(w, func(part string) bool {
		p, ok := ProxyOf(part)
		return ok && p.Place.Shared()
	})
}

// At returns the parts on the path at a place, each once.
func (w Way) At(place Place) []string {
	var out []string
	for _, part := range w {
		if p, ok := ProxyOf(part); ok && p.Place == place && !slices.Contains(out, part) {
			out = append(out, part)
		}
	}
	return out
}

// Parts returns the proxies on the path, each once, in the order of reports.
func (w Way) Parts() []string {
	return slices.DeleteFunc(ProxyParts(), func(part string) bool { return !w.Has(part) })
}

// OnOneNode returns the path if both pods are on one node, whose proxy then serves both.
func (w Way) OnOneNode() Way {
	out := slices.Clone(w)
	for i, part := range out {
		if p, ok := ProxyOf(part); ok && p.Place == PlaceNode {
			out[i] = PartNode
		}
	}
	return out
}
