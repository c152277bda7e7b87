package fidelity

import (
	"fmt"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/meshtrial/meshtrial/testing/xdsserver"
)

var typeURLs = map[string]string{"cds": clusterURL, "eds": endpointURL, "lds": listenerURL, "rds": routeURL, "wds": addressURL, "wads": authorizationURL}

// Replay replays a transcript to a client: it serves resources with the same names
// and references, but without content, and repeats the pushes after each mark. It
// knows the core types and those of ztunnels.
type Replay struct {
	*xdsserver.Server
	marks   []string
	changes [][]xdsserver.Change // after each mark
}

// NewReplay makes a replay of a transcript.
func NewReplay(t *Transcript) (*Replay, error) {
	r := &Replay{}
	begin := xdsserver.Configuration{}
	held := map[string]map[string]xdsserver.Resource{}
	for _, s := range t.Steps {
		url := typeURLs[s.Type]
		if s.Kind == Mark {
			r.marks, r.changes = append(r.marks, s.Type), append(r.changes, nil)
		}
		if s.Kind != FromServer || url == "" {
			continue
		}
		change := xdsserver.Change{Type: url, Removed: s.Removed}
		names := map[string]bool{}
		for _, resource := range s.Resources {
			made, err := resource.make(s.Type)
			if err != nil {
				return nil, fmt.Errorf("replay: %s %q: %w", s.Type, resource.Name, err)
			}
			change.Changed = append(change.Changed, made)
			names[resource.Name] = true
		}
		if held[url] == nil {
			held[url] = map[string]xdsserver.Resource{}
		}
		if t.Mode == ModeSotW && (s.Type == "cds" || s.Type == "lds") {
			for name := range held[url] { // a missing name was removed
				if !names[name] {
					change.Removed = append(change.Removed, name)
				}
			}
		}
		for _, name := range change.Removed {
			delete(held[url], name)
		}
		for _, resource := range change.Changed {
			held[url][resource.Name] = resource
		}
		if n := len(r.changes); n > 0 {
			r.changes[n-1] = append(r.changes[n-1], change)
			continue
		}
		begin[url] = nil
		for _, resource := range held[url] {
			begin[url] = append(begin[url], resource)
		}
	}
	r.Server = xdsserver.New(begin)
	return r, nil
}

// Next replays what followed the next mark, and returns its text, or false if there
// is none left.
func (r *Replay) Next() (string, bool) {
	if len(r.marks) == 0 {
		return "", false
	}
	mark, changes := r.marks[0], r.changes[0]
	r.marks, r.changes = r.marks[1:], r.changes[1:]
	r.Push(changes...)
	return mark, true
}

// make returns a resource of a type with only a name and references.
func (r Resource) make(typ string) (xdsserver.Resource, error) {
	var m proto.Message
	switch typ {
	case "cds":
		c := &clusterv3.Cluster{Name: r.Name}
		for _, ref := range r.Refs {
			if name, ok := strings.CutPrefix(ref, "eds="); ok {
				c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS}
				c.EdsClusterConfig = &clusterv3.Cluster_EdsClusterConfig{ServiceName: name}
			}
		}
		m = c
	case "eds":
		m = &endpointv3.ClusterLoadAssignment{ClusterName: r.Name}
	case "lds":
		l := &listenerv3.Listener{Name: r.Name}
		for _, ref := range r.Refs {
			name, ok := strings.CutPrefix(ref, "rds=")
			if !ok {
				continue
			}
			manager, err := anypb.New(&hcmv3.HttpConnectionManager{RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{RouteConfigName: name}}})
			if err != nil {
				return xdsserver.Resource{}, err
			}
			l.FilterChains = append(l.FilterChains, &listenerv3.FilterChain{Filters: []*listenerv3.Filter{{
				Name: "envoy.filters.network.http_connection_manager", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: manager}}}})
		}
		m = l
	case "rds":
		m = &routev3.RouteConfiguration{Name: r.Name}
	case "wds", "wads": // a simulated ztunnel needs nothing in them
		m = &emptypb.Empty{}
	default:
		return xdsserver.Resource{}, fmt.Errorf("no body is known for this type")
	}
	return xdsserver.NewResource(r.Name, m)
}
