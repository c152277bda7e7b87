package scope

import (
	"cmp"
	"strings"
)

// Kinds of owners besides the Kubernetes kinds, which keep their Kubernetes spelling (Service,
// VirtualService...).
const (
	KindMesh         = "mesh"         // made by istiod or the injector for every proxy
	KindShared       = "shared"       // serves several owners: the listener of a port
	KindWorkload     = "workload"     // pods of a controller of unknown kind
	KindWasm         = "Wasm"         // a Wasm extension that only its own name identifies
	KindHost         = "host"         // a host name whose Service or ServiceEntry is not in the dump
	KindUnattributed = "unattributed" // no rule explains it; often an EnvoyFilter's
	KindDump         = "dump"         // the dump's own frame, which was not sent by a control plane
)

// Owner is the origin of some configuration bytes. A ServiceEntry is named by its host, since
// the proxy does not know the name of the resource; several may share one host.
type Owner struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// String returns "Kind namespace/name".
func (o Owner) String() string {
	s := o.Kind
	if o.Namespace != "" {
		return s + " " + o.Namespace + "/" + o.Name
	}
	if o.Name != "" {
		s += " " + o.Name
	}
	return s
}

func compareOwners(a, b Owner) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

var (
	bootstrap    = Owner{Kind: KindMesh, Name: "bootstrap"}
	defaults     = Owner{Kind: KindMesh, Name: "defaults"} // catch-all listeners, passthrough, black hole
	certificates = Owner{Kind: KindMesh, Name: "certificates"}
	frame        = Owner{Kind: KindDump, Name: "frame"}
	tooMany      = Owner{Kind: KindUnattributed, Name: "more names than are told apart"}
)

// configOwner reads the metadata value filter_metadata.istio.config,
// "/apis/GROUP/VERSION/namespaces/NAMESPACE/KEBAB-KIND/NAME", which istiod's
// util.AddConfigInfoMetadata writes.
func configOwner(path string) (Owner, bool) {
	parts := strings.Split(path, "/")
	if len(parts) != 8 || parts[0] != "" || parts[1] != "apis" || parts[4] != "namespaces" || parts[6] == "" || parts[7] == "" {
		return Owner{}, false
	}
	var kind strings.Builder
	for _, word := range strings.Split(parts[6], "-") {
		if word != "" {
			kind.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	if kind.Len() == 0 {
		return Owner{}, false
	}
	return Owner{Kind: kind.String(), Namespace: parts[5], Name: parts[7]}, true
}

// serviceOwner returns the owner behind an entry of filter_metadata.istio.services (cluster.go,
// buildServiceMetadata): a Kubernetes Service has the host NAME.NAMESPACE.svc.DOMAIN; a
// ServiceEntry's name is its host.
func serviceOwner(host, name, namespace string) Owner {
	if strings.HasPrefix(host, name+"."+namespace+".svc.") {
		return Owner{Kind: "Service", Namespace: namespace, Name: name}
	}
	return Owner{Kind: "ServiceEntry", Namespace: namespace, Name: host}
}

// hostOwner guesses the owner of a host that no cluster describes.
func hostOwner(host string) Owner {
	if parts := strings.SplitN(host, ".", 4); len(parts) == 4 && parts[0] != "" && parts[1] != "" && parts[2] == "svc" && parts[3] != "" {
		return Owner{Kind: "Service", Namespace: parts[1], Name: parts[0]}
	}
	return Owner{Kind: KindHost, Name: host}
}

// SplitCluster parses a cluster's name "DIRECTION|PORT|SUBSET|HOST" (model.BuildSubsetKey), or
// the SNI form with "_." as separator.
func SplitCluster(name string) (direction, port, subset, host string, ok bool) {
	sep := "|"
	if strings.HasPrefix(name, "outbound_.") || strings.HasPrefix(name, "inbound_.") {
		sep = "_."
	}
	parts := strings.SplitN(name, sep, 4)
	if len(parts) != 4 || parts[0] != "outbound" && parts[0] != "inbound" && parts[0] != "inbound-vip" {
		return "", "", "", "", false
	}
	return parts[0], parts[1], parts[2], parts[3], true
}

// OwnCluster reports whether a cluster is one that istiod gives to proxies for the mesh itself,
// and that does not lead to a service.
func OwnCluster(name string) bool { return meshClusters[name] }

// meshClusters are clusters that istiod gives to proxies for the mesh itself.
var meshClusters = map[string]bool{
	"BlackHoleCluster": true, "PassthroughCluster": true,
	"InboundPassthroughCluster": true, "InboundPassthroughClusterIpv4": true, "InboundPassthroughClusterIpv6": true,
	// in the bootstrap
	"agent": true, "prometheus_stats": true, "sds-grpc": true, "xds-grpc": true, "zipkin": true,
	// through which proxies of an ambient mesh reach their own listeners and other proxies'
	// tunnels (istio.io/istio, pilot/pkg/networking/core/waypoint.go)
	"main_internal": true, "encap": true, "connect_originate": true, "inner_connect_originate": true, "outer_connect_originate": true,
}

// policyOwner parses a policy's name in an RBAC filter, "ns[NAMESPACE]-policy[NAME]-rule[N]",
// which follows a prefix for external authorization (security/authz/builder, policyName).
func policyOwner(name string) (Owner, bool) {
	_, rest, found := strings.Cut(name, "ns[")
	namespace, rest, found2 := strings.Cut(rest, "]-policy[")
	policy, _, found3 := strings.Cut(rest, "]-rule[")
	if !found || !found2 || !found3 || namespace == "" || policy == "" {
		return Owner{}, false
	}
	return Owner{Kind: "AuthorizationPolicy", Namespace: namespace, Name: policy}, true
}

// extensionOwner parses the name of an extension's configuration,
// "extensions.istio.io/wasmplugin/NAMESPACE.NAME", which istiod misspells as "extenstions" for a
// WasmPlugin. Other control planes omit the namespace.
func extensionOwner(name string) (Owner, bool) {
	parts := strings.SplitN(name, "/", 3)
	if len(parts) != 3 || parts[0] != "extensions.istio.io" && parts[0] != "extenstions.istio.io" {
		return Owner{}, false
	}
	kind := map[string]string{"wasmplugin": "WasmPlugin", "trafficextension": "TrafficExtension"}[parts[1]]
	namespace, plugin, found := strings.Cut(parts[2], ".")
	if !found {
		namespace, plugin = "", parts[2]
	}
	if kind == "" || found && namespace == "" || plugin == "" {
		return Owner{}, false
	}
	return Owner{Kind: kind, Namespace: namespace, Name: plugin}, true
}

// wasmOwner returns the owner of a Wasm extension: from the name of its plugin in the filter's
// typed_config, which is a Wasm message (envoy/extensions/filters/http/wasm/v3) or a TypedStruct
// with its fields in value, or else from the name of the filter. ok is false for other filters.
func wasmOwner(filter node) (_ Owner, ok bool) {
	config := filter.get("typed_config")
	plugin := config.get("config")
	if plugin.size() == 0 {
		plugin = path(config, "value", "config")
	}
	isWasm := plugin.get("vm_config").size() > 0 || plugin.get("vmConfig").size() > 0
	path(filter, "config_discovery", "type_urls").each(func(url node) {
		isWasm = isWasm || strings.HasSuffix(url.text(), ".wasm.v3.Wasm")
	})
	if !isWasm {
		return Owner{}, false
	}
	name := plugin.get("name").text()
	if owner, ok := extensionOwner(name); ok {
		return owner, true
	}
	return Owner{Kind: KindWasm, Name: cmp.Or(name, plugin.get("root_id").text(), plugin.get("rootId").text(), filter.get("name").text())}, true
}

// gatewayOwner parses the name of a route configuration for a Gateway's TLS server,
// "https.PORT.PORTNAME.GATEWAY.NAMESPACE", optionally followed by ".BIND" (model/gateway.go,
// gatewayRDSRouteName). A name with more dots is ambiguous and is rejected, as in istiod itself.
func gatewayOwner(route string) (Owner, bool) {
	parts := strings.Split(route, ".")
	if len(parts) != 5 || parts[0] != "https" || parts[3] == "" || parts[4] == "" {
		return Owner{}, false
	}
	return Owner{Kind: "Gateway", Namespace: parts[4], Name: parts[3]}, true
}

// claim names the owner of bytes as their resource does. Another resource may define the name (a
// cluster describes its host), so claims are resolved after everything has been read.
type claim struct {
	kind     claimKind
	name     string
	fallback Owner // for a host that nothing describes; for claimOwner, the owner
}

type claimKind int

const (
	claimOwner   claimKind = iota
	claimCluster           // the owner of the cluster with this name
	claimHost              // the Service or ServiceEntry with this host
	claimRoutes            // the owner of the destinations of these routes
)

func by(o Owner) claim            { return claim{fallback: o} }
func ofCluster(name string) claim { return claim{kind: claimCluster, name: name} }
func ofRoutes(name string) claim  { return claim{kind: claimRoutes, name: name} }
func unexplained(what string) claim {
	return by(Owner{Kind: KindUnattributed, Name: what})
}

// names collects what the resources define about names, in order to resolve claims. Each map
// holds at most maxNames entries, so memory is bounded.
type names struct {
	hosts    map[string]Owner      // from clusters
	clusters map[string]claim      // from clusters
	routes   map[string]routeUsers // from route configurations
	filters  map[string]Owner      // what EnvoyFilters add, by name
}

// routeUsers are the owners that the virtual hosts of a route configuration serve.
type routeUsers struct {
	first claim
	more  bool // there are others
}

// maxNames limits the number of distinct names and owners; further bytes are unattributed.
const maxNames = 200_000

func learn[V any](m map[string]V, name string, v V) {
	if _, known := m[name]; known || name != "" && len(m) < maxNames {
		m[name] = v
	}
}

func (n names) servesAlso(routes string, user claim) {
	known, found := n.routes[routes]
	if !found {
		known.first = user
	}
	known.more = known.more || user != known.first
	learn(n.routes, routes, known)
}

// resolve turns a claim into an owner.
func (n names) resolve(c claim) Owner {
	switch c.kind {
	case claimCluster:
		if meshClusters[c.name] {
			return defaults
		}
		if known, found := n.clusters[c.name]; found {
			return n.resolve(known) // never another cluster's claim
		}
		if _, _, _, host, ok := SplitCluster(c.name); ok && host != "" {
			return n.resolve(claim{kind: claimHost, name: host})
		}
		return Owner{Kind: KindUnattributed, Name: "cluster " + c.name}
	case claimHost:
		if owner, known := n.hosts[c.name]; known {
			return owner
		}
		if c.fallback != (Owner{}) {
			return c.fallback
		}
		return hostOwner(c.name)
	case claimRoutes:
		if owner, ok := gatewayOwner(c.name); ok {
			return owner
		}
		if users, known := n.routes[c.name]; known && !users.more {
			return n.resolve(users.first) // never another route configuration's claim
		}
		return Owner{Kind: KindShared, Name: "routes " + c.name}
	}
	return c.fallback
}
