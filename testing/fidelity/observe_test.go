package fidelity

import (
	"fmt"
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

// Type URLs of Envoy, and of istiod's own types (pilot's model package).
const (
	clusterURL  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	endpointURL = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	listenerURL = "type.googleapis.com/envoy.config.listener.v3.Listener"
	routeURL    = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"

	addressURL       = "type.googleapis.com/istio.workload.Address"
	authorizationURL = "type.googleapis.com/istio.security.Authorization"

	httpURL = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
)

var shortNames = map[string]string{
	clusterURL: "cds", endpointURL: "eds", listenerURL: "lds", routeURL: "rds",
	"type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret": "sds",
	"type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig":        "ecds",
	"type.googleapis.com/istio.networking.nds.v1.NameTable":                "nds",
	"type.googleapis.com/istio.mesh.v1alpha1.ProxyConfig":                  "pcds",
	"type.googleapis.com/istio.v1.HealthInformation":                       "health",
	addressURL: "wds", authorizationURL: "wads", "type.googleapis.com/istio.workload.Workload": "wds",
}

// short returns the short name of a type, or the URL of an unknown one.
func short(url string) string {
	if s, ok := shortNames[url]; ok {
		return s
	}
	return url
}

// observer makes a transcript of raw messages. It is not safe for concurrent
// use.
type observer struct {
	transcript Transcript
	types      map[string]*typeState // by URL
}

// typeState is the state of the messages of one type.
type typeState struct {
	due   []sent // unanswered responses, oldest first
	again sent   // the response answered last
}

type sent struct{ nonce, version string }

func newObserver(mode string) *observer {
	return &observer{transcript: Transcript{Mode: mode}, types: map[string]*typeState{}}
}

func (o *observer) of(url string) *typeState {
	t := o.types[url]
	if t == nil {
		t = &typeState{}
		o.types[url] = t
	}
	return t
}

// answer says which responses a request's nonce and version belong to, and
// whether the request answers one.
func (t *typeState) answer(nonce, version string, failed bool, s *Step) {
	s.Nonce, s.Version = None, None
	before := t.again
	if nonce != "" {
		s.Nonce = Other
		if nonce == t.again.nonce {
			s.Nonce = Again
		}
		for i, d := range t.due {
			if d.nonce != nonce {
				continue
			}
			if i == 0 {
				s.Nonce = Due
			}
			s.Answer = Ack
			if failed {
				s.Answer = Nack
			}
			t.again, t.due = d, t.due[i+1:]
			break
		}
	}
	switch version {
	case "":
	case t.again.version:
		s.Version = Due
		if s.Answer == "" {
			s.Version = Again
		}
	case before.version:
		s.Version = Again
	default:
		s.Version = Other
	}
}

// request records a raw request.
func (o *observer) request(raw []byte) error {
	var step Step
	var node *corev3.Node
	var url string
	if o.transcript.Mode == ModeDelta {
		var m discoveryv3.DeltaDiscoveryRequest
		if err := proto.Unmarshal(raw, &m); err != nil {
			return fmt.Errorf("request %d of the stream: %w", len(o.transcript.Steps), err)
		}
		url, node = m.GetTypeUrl(), m.GetNode()
		step = Step{Subscribe: slices.Sorted(slices.Values(m.GetResourceNamesSubscribe())),
			Unsubscribe: slices.Sorted(slices.Values(m.GetResourceNamesUnsubscribe()))}
		for name := range m.GetInitialResourceVersions() {
			step.Initial = append(step.Initial, name)
		}
		slices.Sort(step.Initial)
		o.of(url).answer(m.GetResponseNonce(), "", m.GetErrorDetail() != nil, &step)
		step.Version = ""
	} else {
		var m discoveryv3.DiscoveryRequest
		if err := proto.Unmarshal(raw, &m); err != nil {
			return fmt.Errorf("request %d of the stream: %w", len(o.transcript.Steps), err)
		}
		url, node = m.GetTypeUrl(), m.GetNode()
		step = Step{Subscribe: slices.Sorted(slices.Values(m.GetResourceNames()))}
		o.of(url).answer(m.GetResponseNonce(), m.GetVersionInfo(), m.GetErrorDetail() != nil, &step)
	}
	step.Kind, step.Type, step.Node = FromClient, short(url), describe(node)
	o.transcript.Steps = append(o.transcript.Steps, step)
	return nil
}

// describe lists the contents of a node, or returns nil if it has no fields.
func describe(n *corev3.Node) *Node {
	if n == nil {
		return nil
	}
	out := &Node{ID: n.GetId()}
	n.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		out.Fields = append(out.Fields, string(f.Name()))
		return true
	})
	for key := range n.GetMetadata().GetFields() {
		out.Metadata = append(out.Metadata, key)
	}
	slices.Sort(out.Fields)
	slices.Sort(out.Metadata)
	return out
}

// response records a raw response.
func (o *observer) response(raw []byte) error {
	step := Step{Kind: FromServer}
	var url, nonce, version string
	if o.transcript.Mode == ModeDelta {
		var m discoveryv3.DeltaDiscoveryResponse
		if err := proto.Unmarshal(raw, &m); err != nil {
			return fmt.Errorf("response before step %d of the stream: %w", len(o.transcript.Steps), err)
		}
		url, nonce, version = m.GetTypeUrl(), m.GetNonce(), m.GetSystemVersionInfo()
		for _, r := range m.GetResources() {
			resource, err := describeResource(r.GetResource())
			if err != nil {
				return fmt.Errorf("%s %q: %w", short(url), r.GetName(), err)
			}
			resource.Name = r.GetName()
			step.Resources = append(step.Resources, resource)
		}
		step.Removed = slices.Sorted(slices.Values(m.GetRemovedResources()))
	} else {
		var m discoveryv3.DiscoveryResponse
		if err := proto.Unmarshal(raw, &m); err != nil {
			return fmt.Errorf("response before step %d of the stream: %w", len(o.transcript.Steps), err)
		}
		url, nonce, version = m.GetTypeUrl(), m.GetNonce(), m.GetVersionInfo()
		for i, any := range m.GetResources() {
			resource, err := describeResource(any)
			if err != nil {
				return fmt.Errorf("%s resource %d: %w", short(url), i, err)
			}
			step.Resources = append(step.Resources, resource)
		}
	}
	t := o.of(url)
	t.due = append(t.due, sent{nonce, version})
	step.Type = short(url)
	slices.SortStableFunc(step.Resources, func(a, b Resource) int { return strings.Compare(a.Name, b.Name) })
	o.transcript.Steps = append(o.transcript.Steps, step)
	return nil
}

// describeResource finds a resource's name and what it makes a client subscribe
// to.
func describeResource(any *anypb.Any) (Resource, error) {
	var r Resource
	switch any.GetTypeUrl() {
	case clusterURL:
		var c clusterv3.Cluster
		if err := any.UnmarshalTo(&c); err != nil {
			return r, err
		}
		r.Name = c.GetName()
		if c.GetType() == clusterv3.Cluster_EDS {
			name := c.GetEdsClusterConfig().GetServiceName()
			if name == "" {
				name = c.GetName()
			}
			r.Refs = append(r.Refs, "eds="+name)
		}
	case endpointURL:
		var e endpointv3.ClusterLoadAssignment
		if err := any.UnmarshalTo(&e); err != nil {
			return r, err
		}
		r.Name = e.GetClusterName()
	case listenerURL:
		var l listenerv3.Listener
		if err := any.UnmarshalTo(&l); err != nil {
			return r, err
		}
		r.Name = l.GetName()
		refs, err := listenerRefs(&l)
		if err != nil {
			return r, err
		}
		r.Refs = refs
	case routeURL:
		var c routev3.RouteConfiguration
		if err := any.UnmarshalTo(&c); err != nil {
			return r, err
		}
		r.Name = c.GetName()
	}
	slices.Sort(r.Refs)
	r.Refs = slices.Compact(r.Refs)
	return r, nil
}

// listenerRefs lists the routes and extensions that a listener refers to.
func listenerRefs(l *listenerv3.Listener) ([]string, error) {
	var refs []string
	chains := l.GetFilterChains()
	if l.GetDefaultFilterChain() != nil {
		chains = append(slices.Clone(chains), l.GetDefaultFilterChain())
	}
	for _, chain := range chains {
		for _, filter := range chain.GetFilters() {
			if filter.GetConfigDiscovery() != nil {
				refs = append(refs, "ecds="+filter.GetName())
			}
			if filter.GetTypedConfig().GetTypeUrl() != httpURL {
				continue
			}
			var h hcmv3.HttpConnectionManager
			if err := filter.GetTypedConfig().UnmarshalTo(&h); err != nil {
				return nil, err
			}
			if h.GetRds() != nil {
				refs = append(refs, "rds="+h.GetRds().GetRouteConfigName())
			}
			for _, inner := range h.GetHttpFilters() {
				if inner.GetConfigDiscovery() != nil {
					refs = append(refs, "ecds="+inner.GetName())
				}
			}
		}
	}
	return refs, nil
}
