package scope

// claim says whose some bytes are, in the words of the resource they stand
// in. What a name means may follow in another resource (a host is described
// by its cluster), so claims are resolved when everything has been read.
type claim struct {
	kind     claimKind
	name     string
	fallback Owner // for a host that nothing describes; for an owner: the owner
}

type claimKind int

const (
	claimOwner   claimKind = iota
	claimCluster           // whoever owns the cluster of this name
	claimHost              // the Service or ServiceEntry of this host
	claimRoutes            // whoever the routes of this configuration serve
)

func by(o Owner) claim            { return claim{fallback: o} }
func ofCluster(name string) claim { return claim{kind: claimCluster, name: name} }
func ofRoutes(name string) claim  { return claim{kind: claimRoutes, name: name} }
func unexplained(what string) claim {
	return by(Owner{Kind: KindUnattributed, Name: what})
}

// names is what the resources said of names, to resolve claims with. Each map
// holds at most maxNames, so that memory stays bounded.
type names struct {
	hosts    map[string]Owner      // from clusters
	clusters map[string]claim      // from clusters
	routes   map[string]routeUsers // from route configurations
	filters  map[string]Owner      // what EnvoyFilters add, by its name
}

// routeUsers are whom the virtual hosts of a route configuration serve.
type routeUsers struct {
	first claim
	more  bool // and others
}

// maxNames bounds how many different names and owners are told apart. A proxy
// with more has other worries; its further bytes are unattributed.
const maxNames = 200_000

func newNames() names {
	return names{hosts: map[string]Owner{}, clusters: map[string]claim{}, routes: map[string]routeUsers{}}
}

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
			return n.resolve(known) // never another cluster's
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
			return n.resolve(users.first) // never another route configuration's
		}
		return Owner{Kind: KindShared, Name: "routes " + c.name}
	}
	return c.fallback
}
