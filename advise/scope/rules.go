package scope

import (
	"strconv"
	"strings"
)

// Types of configuration, by the names of their discovery services.
const (
	TypeBootstrap = "bootstrap"
	TypeCluster   = "cds"
	TypeEndpoint  = "eds"
	TypeListener  = "lds"
	TypeRoute     = "rds"
	TypeSecret    = "sds"
	TypeExtension = "ecds"
	TypeOther     = "other"
	TypeFrame     = "frame" // of a dump: the bytes around the resources
)

// part is a range of bytes inside a resource that belongs to a different owner
// than the bytes around it.
type part struct {
	claim claim
	bytes int64
}

// judged is the result of the rules for a resource.
type judged struct {
	name  string
	rest  claim // owner of all bytes outside the parts
	parts []part
	dns   bool // for a cluster: the proxy resolves its endpoints
	// shapes is the configuration that changed another owner's resource, as a
	// DestinationRule changes a Service's cluster; its bytes cannot be
	// separated from the rest.
	shapes Owner
}

func (j *judged) cut(c claim, bytes int64) {
	if bytes > 0 {
		j.parts = append(j.parts, part{c, bytes})
	}
}

// judge applies the rules to a resource. static means that it came with the
// bootstrap or inside another resource rather than from istiod directly.
func (n names) judge(typ string, r node, static bool) judged {
	switch typ {
	case TypeBootstrap:
		return judged{name: "bootstrap", rest: by(bootstrap)}
	case TypeCluster:
		return n.cluster(r, static)
	case TypeEndpoint:
		j := judged{name: r.get("cluster_name").text()}
		if j.rest = ofCluster(j.name); static {
			j.rest = by(bootstrap)
		}
		return j
	case TypeListener:
		return n.listener(r, static)
	case TypeRoute:
		return n.routeConfiguration(r, static)
	case TypeSecret:
		return secret(r.get("name").text())
	case TypeExtension:
		j := judged{name: r.get("name").text()}
		j.rest = n.extension(j.name, r, "extension "+j.name)
		return j
	}
	return judged{name: r.get("name").text(), rest: unexplained(typ)}
}

func secret(name string) judged {
	switch {
	case name == "default", name == "ROOTCA", strings.HasPrefix(name, "file-"):
		return judged{name: name, rest: by(certificates)}
	case strings.HasPrefix(name, "kubernetes://"), strings.HasPrefix(name, "kubernetes-gateway://"):
		_, rest, _ := strings.Cut(name, "://")
		namespace, secret, found := strings.Cut(rest, "/")
		if !found {
			namespace, secret = "", rest
		}
		return judged{name: name, rest: by(Owner{Kind: "Secret", Namespace: namespace, Name: secret})}
	}
	return judged{name: name, rest: unexplained("secret " + name)}
}

// configOf returns the maker of something according to its metadata.
func configOf(n node) (Owner, bool) {
	return configOwner(path(n, "metadata", "filter_metadata", "istio", "config").text())
}

// cluster attributes a subset to a DestinationRule and any other cluster of a
// service to the service; a DestinationRule shapes it.
func (n names) cluster(r node, static bool) judged {
	j := judged{name: r.get("name").text(), dns: strings.HasSuffix(r.get("type").text(), "_DNS")} // STRICT_DNS, LOGICAL_DNS
	service, first := Owner{}, true
	path(r, "metadata", "filter_metadata", "istio", "services").each(func(s node) {
		if host := s.get("host").text(); first && host != "" {
			service, first = serviceOwner(host, s.get("name").text(), s.get("namespace").text()), false
			learn(n.hosts, host, service)
		}
	})
	config, hasConfig := configOf(r)
	_, _, subset, host, ok := SplitCluster(j.name)
	switch {
	case static:
		j.rest = by(bootstrap)
	case meshClusters[j.name]:
		j.rest = by(defaults)
	case hasConfig && (subset != "" || first):
		j.rest = by(config)
	case !first:
		j.rest, j.shapes = by(service), config
	case ok && host != "":
		j.rest = claim{kind: claimHost, name: host}
	default:
		j.rest = n.otherwise(j.name, "cluster "+j.name)
	}
	learn(n.clusters, j.name, j.rest)
	return j
}

// listener attributes every filter chain to its destination, and the listener to the first
// destination other than istiod.
func (n names) listener(r node, static bool) judged {
	j := judged{name: r.get("name").text()}
	if static {
		j.rest = by(bootstrap)
		return j
	}
	main, any := claim{}, false
	chain := func(c node) {
		if c.size() == 0 {
			return
		}
		before := len(j.parts)
		owner := n.chain(&j, c)
		inner := int64(0)
		for _, p := range j.parts[before:] {
			inner += p.bytes
		}
		j.cut(owner, c.size()-inner)
		if !any && !(owner.kind == claimCluster && meshClusters[owner.name]) && owner != by(defaults) {
			main, any = owner, true
		}
	}
	r.get("filter_chains").each(chain)
	chain(r.get("default_filter_chain"))
	switch {
	case j.name == "virtualInbound", j.name == "virtualOutbound", strings.HasPrefix(j.name, "connect_"):
		j.rest = by(defaults)
	case any:
		j.rest = main
	case len(j.parts) > 0:
		j.rest = by(defaults)
	default:
		j.rest = n.otherwise(j.name, "listener "+j.name)
	}
	return j
}

// chain returns the owner of a filter chain, and cuts out filters that belong
// to others.
func (n names) chain(j *judged, c node) claim {
	owner, known := claim{}, false
	if config, ok := configOf(c); ok {
		owner, known = by(config), true
	}
	say := func(c claim) {
		if !known {
			owner, known = c, true
		}
	}
	c.get("filters").each(func(f node) {
		name := f.get("name").text()
		_, added := n.filters[name]
		_, isExtension := extensionOwner(name)
		_, isWasm := wasmOwner(f)
		if added || isExtension || isWasm && !istioFilter(name) {
			j.cut(n.extension(name, f, "filter "+name), f.size())
			return
		}
		config := f.get("typed_config")
		policies(j, config)
		if cluster := config.get("cluster").text(); cluster != "" {
			say(ofCluster(cluster))
		}
		path(config, "weighted_clusters", "clusters").each(func(w node) { say(ofCluster(w.get("name").text())) })
		if routes := path(config, "rds", "route_config_name").text(); routes != "" {
			say(ofRoutes(routes))
		}
		path(config, "route_config", "virtual_hosts").each(func(vh node) {
			vh.get("routes").each(func(route node) {
				if cluster := path(route, "route", "cluster").text(); cluster != "" {
					say(ofCluster(cluster))
				}
			})
		})
		config.get("http_filters").each(func(h node) { n.httpFilter(j, h) })
	})
	if !known {
		if name := c.get("name").text(); strings.HasPrefix(name, "virtual") {
			return by(defaults)
		}
		return unexplained("filter chain of " + j.name)
	}
	return owner
}

func (n names) httpFilter(j *judged, h node) {
	name := h.get("name").text()
	if _, ok := extensionOwner(name); !ok && istioFilter(name) {
		policies(j, h.get("typed_config"))
		return
	}
	j.cut(n.extension(name, h, "HTTP filter "+name), h.size())
}

// extension returns the owner of a filter that istiod does not write for
// itself, from the filter's name, an EnvoyFilter's text, or the name of its
// Wasm plugin; otherwise the filter is unattributed with a description.
func (n names) extension(name string, filter node, what string) claim {
	if owner, ok := extensionOwner(name); ok {
		return by(owner)
	}
	wasm, isWasm := wasmOwner(filter)
	if added, ok := n.filters[name]; isWasm && (!ok || added.Kind == KindUnattributed) {
		return by(wasm)
	}
	return n.otherwise(name, what)
}

// istioFilter reports whether istiod itself writes an HTTP filter of this name.
// Others come from EnvoyFilters, whose only trace is what their own text adds
// ([Filters]).
func istioFilter(name string) bool {
	switch name {
	case "envoy.filters.http.router", "envoy.filters.http.cors", "envoy.filters.http.fault", "envoy.filters.http.rbac",
		"envoy.filters.http.grpc_stats", "envoy.filters.http.grpc_web", "envoy.filters.http.alpn", "envoy.filters.http.jwt_authn",
		"envoy.filters.http.ext_authz", "envoy.filters.http.stateful_session", "envoy.filters.http.set_filter_state",
		"envoy.filters.http.composite", "envoy.filters.http.connect_authority", "envoy.filters.http.dynamic_forward_proxy",
		"envoy.filters.http.upstream_codec", "envoy.filters.http.peer_metadata", "connect_authority", "waypoint_downstream_peer_metadata":
		return true
	}
	return strings.HasPrefix(name, "istio.") || strings.HasPrefix(name, "istio_") || strings.HasPrefix(name, "extenstions.istio.io/")
}

// policies cuts the AuthorizationPolicies out of an RBAC filter.
func policies(j *judged, config node) {
	for _, rules := range []string{"rules", "shadow_rules"} {
		path(config, rules, "policies").members(func(name string, p node) {
			if owner, ok := policyOwner(name); ok {
				j.cut(by(owner), p.size())
			}
		})
	}
}

// routeConfiguration attributes a virtual host to its host, and its routes to a
// VirtualService if their metadata says so.
func (n names) routeConfiguration(r node, static bool) judged {
	j := judged{name: r.get("name").text()}
	mesh := ofCluster("")
	r.get("virtual_hosts").each(func(vh node) {
		owner := n.virtualHost(&j, vh)
		if mesh = owner; !static && owner != by(defaults) {
			n.servesAlso(j.name, owner)
		}
	})
	switch {
	case static && mesh.kind == claimCluster && mesh.name != "":
		j.rest = mesh // the route of an inbound listener
	case static:
		j.rest = by(bootstrap)
	default:
		j.rest = ofRoutes(j.name)
	}
	return j
}

// virtualHost cuts a virtual host into its routes and the bytes around them.
func (n names) virtualHost(j *judged, vh node) claim {
	name := vh.get("name").text()
	vs, several, to := Owner{}, false, ""
	type routePart struct {
		owner   Owner
		cluster string
		bytes   int64
	}
	var routes []routePart
	vh.get("routes").each(func(route node) {
		p := routePart{bytes: route.size(), cluster: path(route, "route", "cluster").text()}
		if to == "" {
			to = p.cluster
		}
		if owner, ok := configOf(route); ok {
			several = several || vs != (Owner{}) && vs != owner
			p.owner, vs = owner, owner
		} else if added, ok := n.filters[route.get("name").text()]; ok {
			p.owner = added
		}
		routes = append(routes, p)
	})
	var around claim
	host, port := splitHostPort(name)
	added, isAdded := n.filters[name]
	switch {
	case isAdded:
		around = by(added)
	case name == "allow_any", name == "block_all", host == "blackhole", strings.HasPrefix(name, "allow_any"):
		around = by(defaults)
	case strings.HasPrefix(name, "inbound|") || port == "":
		around = ofCluster(to)
		if to == "" {
			around = unexplained("virtual host " + name)
		}
	default:
		around = claim{kind: claimHost, name: host}
		if !several {
			around.fallback = vs
		}
	}
	inner := int64(0)
	for _, p := range routes {
		if p.owner != (Owner{}) {
			j.cut(by(p.owner), p.bytes)
			inner += p.bytes
		}
	}
	j.cut(around, vh.size()-inner)
	return around
}

// splitHostPort is net.SplitHostPort for arbitrary names: port is "" if there
// is none.
func splitHostPort(name string) (host, port string) {
	i := strings.LastIndexByte(name, ':')
	if i < 0 {
		return name, ""
	}
	if _, err := strconv.ParseUint(name[i+1:], 10, 16); err != nil {
		return name, ""
	}
	return strings.TrimSuffix(strings.TrimPrefix(name[:i], "["), "]"), name[i+1:]
}
