package xdsserver

import (
	"io"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshtrial/meshtrial/internal/confile"
)

// Type URLs that a sidecar requests.
const (
	ClusterType  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	EndpointType = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	ListenerType = "type.googleapis.com/envoy.config.listener.v3.Listener"
	RouteType    = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
)

// Resource is one resource of a type.
type Resource struct {
	Name string
	Any  *anypb.Any
}

// NewResource packs a message.
func NewResource(name string, m proto.Message) (Resource, error) {
	any, err := anypb.New(m)
	return Resource{Name: name, Any: any}, err
}

// Configuration is what a server serves: resources by type URL, sorted by name.
type Configuration map[string][]Resource

// find returns the index of a name among a type's resources.
func (c Configuration) find(typeURL, name string) (int, bool) {
	return slices.BinarySearchFunc(c[typeURL], name, func(r Resource, name string) int { return strings.Compare(r.Name, name) })
}

func (c Configuration) sort() {
	for _, resources := range c {
		slices.SortFunc(resources, func(a, b Resource) int { return strings.Compare(a.Name, b.Name) })
	}
}

// apply returns the configuration with changes to one type's resources;
// unchanged parts are shared.
func (c Configuration) apply(typeURL string, changed []Resource, removed []string) Configuration {
	out := maps.Clone(c)
	out[typeURL] = slices.Clone(c[typeURL])
	for _, name := range removed {
		if i, ok := out.find(typeURL, name); ok {
			out[typeURL] = slices.Delete(out[typeURL], i, i+1)
		}
	}
	for _, r := range changed {
		i, ok := out.find(typeURL, r.Name)
		if ok {
			out[typeURL][i] = r
			continue
		}
		out[typeURL] = slices.Insert(out[typeURL], i, r)
	}
	return out
}

// Read reads what a proxy was sent, in the format of package confile.
func Read(r io.Reader) (Configuration, error) {
	in, err := confile.NewReader(r)
	if err != nil {
		return nil, err
	}
	c := Configuration{}
	for {
		one, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		c[one.TypeURL] = append(c[one.TypeURL], Resource{Name: one.Name, Any: &anypb.Any{TypeUrl: one.TypeURL, Value: one.Body}})
	}
	c.sort()
	return c, nil
}
