package server

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// Type URLs of what a sidecar asks for.
const (
	ClusterType  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	EndpointType = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	ListenerType = "type.googleapis.com/envoy.config.listener.v3.Listener"
	RouteType    = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
)

// files are the names of a configuration's files by type.
var files = map[string]string{ClusterType: "cds.pb", EndpointType: "eds.pb", ListenerType: "lds.pb", RouteType: "rds.pb"}

// maxFile bounds a file of a configuration, bytes.
const maxFile = 256 << 20

// Resource is one resource of a type. Neither field may be changed.
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

// Configuration is what a server serves: resources by type URL, each type's
// in the order of names.
type Configuration map[string][]Resource

// Bytes returns the size of a type's resources.
func (c Configuration) Bytes(typeURL string) int {
	n := 0
	for _, r := range c[typeURL] {
		n += len(r.Any)
	}
	return n
}

// find returns the place of a name among a type's resources.
func (c Configuration) find(typeURL, name string) (int, bool) {
	return slices.BinarySearchFunc(c[typeURL], name, func(r Resource, name string) int { return strings.Compare(r.Name, name) })
}

func (c Configuration) sort() {
	for _, resources := range c {
		slices.SortFunc(resources, func(a, b Resource) int { return strings.Compare(a.Name, b.Name) })
	}
}

// apply returns the configuration with one type's resources changed; what
// did not change is shared.
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

// Save writes a file for each type to a folder that exists: an incremental
// response that holds all resources.
func (c Configuration) Save(dir string) error {
	for typeURL, resources := range c {
		name, ok := files[typeURL]
		if !ok {
			return fmt.Errorf("save configuration: no file for resources of type %s", typeURL)
		}
		if err := os.WriteFile(filepath.Join(dir, name), deltaMessage(typeURL, "", "", resources, nil), 0o644); err != nil {
			return fmt.Errorf("save configuration: %w", err)
		}
	}
	return nil
}

// Load reads what [Configuration.Save] wrote, or a raw incremental response
// of istiod under the same name. A type without a file has no resources; a
// folder without any is an error.
func Load(dir string) (Configuration, error) {
	c := Configuration{}
	for typeURL, name := range files {
		path := filepath.Join(dir, name)
		f, err := os.Open(path)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("load configuration: %w", err)
		}
		b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("load configuration: %w", err)
		}
		if len(b) > maxFile {
			return nil, fmt.Errorf("load configuration: %s is larger than %d MiB", path, maxFile>>20)
		}
		if c[typeURL], err = parse(typeURL, b); err != nil {
			return nil, fmt.Errorf("load configuration: %s: %w", path, err)
		}
	}
	if len(c) == 0 {
		return nil, fmt.Errorf("load configuration: none of cds.pb, eds.pb, lds.pb and rds.pb in %s", dir)
	}
	c.sort()
	return c, nil
}

// parse reads the resources of an incremental response.
func parse(typeURL string, b []byte) ([]Resource, error) {
	var m discoveryv3.DeltaDiscoveryResponse
	if err := proto.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("no incremental discovery response: %w", err)
	}
	if m.GetTypeUrl() != typeURL {
		return nil, fmt.Errorf("resources of type %.100q, want %s", m.GetTypeUrl(), typeURL)
	}
	var out []Resource
	seen := map[string]bool{}
	for _, r := range m.GetResources() {
		if seen[r.GetName()] || r.GetResource() == nil {
			return nil, fmt.Errorf("resource %.100q is there twice or has no body", r.GetName())
		}
		seen[r.GetName()] = true
		any, err := proto.Marshal(r.GetResource())
		if err != nil {
			return nil, err
		}
		out = append(out, Resource{Name: r.GetName(), Any: any})
	}
	return out, nil
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
