package xdsserver

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshtrial/meshtrial/internal/confile"
	"github.com/meshtrial/meshtrial/internal/errs"
)

// Type URLs that a sidecar requests.
const (
	ClusterType  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	EndpointType = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	ListenerType = "type.googleapis.com/envoy.config.listener.v3.Listener"
	RouteType    = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
)

// Resource is one resource of a type. Its fields must not be changed.
type Resource struct {
	Name string
	// Any is a marshalled google.protobuf.Any: the resource's type and body.
	Any []byte
}

// NewResource marshals a message.
func NewResource(name string, m proto.Message) (Resource, error) {
	any, err := anypb.New(m)
	if err != nil {
		return Resource{}, fmt.Errorf("resource %q: %w", name, err)
	}
	b, err := proto.Marshal(any)
	if err != nil {
		return Resource{}, fmt.Errorf("resource %q: %w", name, err)
	}
	return Resource{Name: name, Any: b}, nil
}

func (r Resource) any() (*anypb.Any, error) {
	var any anypb.Any
	if err := proto.Unmarshal(r.Any, &any); err != nil {
		return nil, fmt.Errorf("resource %q: %w", r.Name, err)
	}
	return &any, nil
}

// body unmarshals a resource into a message of its type.
func body(r Resource, into proto.Message) error {
	any, err := r.any()
	if err != nil {
		return err
	}
	if err := any.UnmarshalTo(into); err != nil {
		return fmt.Errorf("resource %q: %w", r.Name, err)
	}
	return nil
}

// WithEndpoint returns the endpoints of the i-th cluster that has any,
// cyclically, plus one at ip and port 8080: a push of them contains a text that
// was not there before. The configuration is not changed.
func (c Configuration) WithEndpoint(i int, ip string) (Resource, error) {
	list := c[EndpointType]
	if len(list) == 0 {
		return Resource{}, errors.New("the configuration has no endpoints")
	}
	r := list[i%len(list)]
	var a endpointv3.ClusterLoadAssignment
	if err := body(r, &a); err != nil {
		return Resource{}, err
	}
	a.Endpoints = append(a.Endpoints, &endpointv3.LocalityLbEndpoints{LbEndpoints: []*endpointv3.LbEndpoint{{
		HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: address(ip, syntheticPort)}},
	}}})
	return NewResource(r.Name, &a)
}

// Configuration is what a server serves: resources by type URL, sorted by name.
type Configuration map[string][]Resource

// Bytes returns the size of a type's resources.
func (c Configuration) Bytes(typeURL string) int {
	n := 0
	for _, r := range c[typeURL] {
		n += len(r.Any)
	}
	return n
}

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
	out := Configuration{}
	for t, resources := range c {
		out[t] = resources
	}
	list := slices.Clone(c[typeURL])
	out[typeURL] = list
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

// maxRecorded is the maximum total size of the bodies in a recorded
// configuration, in bytes.
const maxRecorded = 1 << 30

// Read reads what a proxy was sent, in the format of package confile.
func Read(r io.Reader) (Configuration, error) {
	in, err := confile.NewReader(r)
	if err != nil {
		return nil, err
	}
	c, size := Configuration{}, 0
	for {
		one, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if size += len(one.Body); size > maxRecorded {
			return nil, errs.Usage("recorded configuration: more than %d MB", maxRecorded>>20)
		}
		b := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), one.TypeURL) // type_url
		b = protowire.AppendBytes(protowire.AppendTag(b, 2, protowire.BytesType), one.Body)        // value
		c[one.TypeURL] = append(c[one.TypeURL], Resource{Name: one.Name, Any: b})
	}
	if size == 0 {
		return nil, errs.Usage("recorded configuration of %s: it has no resources", in.Header.Proxy)
	}
	c.sort()
	for typeURL, list := range c {
		for i := 1; i < len(list); i++ {
			if list[i].Name == list[i-1].Name {
				return nil, errs.Usage("recorded configuration: resource %q of type %s is there twice", list[i].Name, typeURL)
			}
		}
	}
	return c, nil
}

// deltaMessage marshals a DeltaDiscoveryResponse, sotwMessage a
// DiscoveryResponse; field numbers are those of
// envoy/service/discovery/v3/discovery.proto.
func deltaMessage(typeURL, version, nonce string, resources []Resource, removed []string) []byte {
	size := 256 + len(typeURL)
	for _, r := range resources {
		size += len(r.Any) + len(r.Name) + len(version) + 32
	}
	b := make([]byte, 0, size)
	b = appendString(b, 1, version) // system_version_info
	for _, r := range resources {
		inner := protowire.SizeTag(1) + protowire.SizeBytes(len(version)) + protowire.SizeTag(2) + protowire.SizeBytes(len(r.Any)) + protowire.SizeTag(3) + protowire.SizeBytes(len(r.Name))
		if version == "" {
			inner -= protowire.SizeTag(1) + protowire.SizeBytes(0)
		}
		b = protowire.AppendTag(b, 2, protowire.BytesType) // resources
		b = protowire.AppendVarint(b, uint64(inner))
		b = appendString(b, 1, version)
		b = protowire.AppendTag(b, 2, protowire.BytesType)
		b = protowire.AppendBytes(b, r.Any)
		b = protowire.AppendTag(b, 3, protowire.BytesType)
		b = protowire.AppendString(b, r.Name)
	}
	b = appendString(b, 4, typeURL)
	b = appendString(b, 5, nonce)
	for _, name := range removed {
		b = protowire.AppendTag(b, 6, protowire.BytesType) // removed_resources
		b = protowire.AppendString(b, name)
	}
	return b
}

func sotwMessage(typeURL, version, nonce string, resources []Resource) []byte {
	size := 256 + len(typeURL)
	for _, r := range resources {
		size += len(r.Any) + 16
	}
	b := make([]byte, 0, size)
	b = appendString(b, 1, version) // version_info
	for _, r := range resources {
		b = protowire.AppendTag(b, 2, protowire.BytesType) // resources
		b = protowire.AppendBytes(b, r.Any)
	}
	b = appendString(b, 4, typeURL)
	return appendString(b, 5, nonce)
}

func appendString(b []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}
