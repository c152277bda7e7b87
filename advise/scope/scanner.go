package scope

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Proxy is the size of one proxy's configuration. Types and Owners each add up to DumpBytes and
// WireBytes.
type Proxy struct {
	Name      string `json:"name"`
	DumpBytes int64  `json:"dump_bytes"`           // as JSON in a config dump
	WireBytes int64  `json:"wire_bytes,omitempty"` // as protobuf; 0 from a dump, which does not have it
	Resources int    `json:"resources"`
	// Simulated means that the resources were sent to a simulated proxy: JSON sizes are derived,
	// and there is no bootstrap. Kind is the type of its node (sidecar, router, ztunnel), and Alike
	// the number of proxies it represents; 0 means unknown. Among dumps, only a ztunnel's has a
	// Kind.
	Simulated bool   `json:"simulated,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Alike     int    `json:"alike,omitempty"`
	// Incomplete means that reading ended with an error; the figures cover what came before.
	Incomplete bool        `json:"incomplete,omitempty"`
	Types      []TypeSize  `json:"types"`
	Owners     []OwnerSize `json:"owners"`
	Largest    []Resource  `json:"largest"`            // resources, largest first, as many as requested
	Clusters   []Cluster   `json:"clusters,omitempty"` // outbound clusters, by name
	Notes      []Note      `json:"notes,omitempty"`
	// DNS counts the clusters that the proxy itself resolves by DNS (STRICT_DNS, LOGICAL_DNS).
	DNS int `json:"-"`
	// Node describes the proxy's pod, if its dump does.
	Node *Node `json:"node,omitempty"`
	// Calls covers all its clusters, including inbound ones and istiod's own; nil if the proxy was
	// not asked.
	Calls map[string]int64 `json:"-"`
}

// Note is a limitation of a proxy's figures.
type Note struct {
	Code  NoteCode `json:"code"`
	Proxy string   `json:"proxy,omitempty"`
	N     int      `json:"n,omitempty"` // resources
	Text  string   `json:"text,omitempty"`
}

// NoteCode identifies a limitation.
type NoteCode string

// The limitations.
const (
	NotePartial     NoteCode = "partial_json" // resources with packed types that are not linked in
	NoteNoEndpoints NoteCode = "no_endpoints"
	NoteZtunnel     NoteCode = "ztunnel_without_owners"
	NoteLost        NoteCode = "not_kept"
	NoteSource      NoteCode = "source" // something could not be read; see Text
)

// String describes a limitation for people.
func (n Note) String() string {
	switch n.Code {
	case NotePartial:
		return fmt.Sprintf("%d resources hold unknown packed types: their size as JSON is too small, that on the wire is right", n.N)
	case NoteNoEndpoints:
		return "the dump has no endpoints; /config_dump?include_eds has them"
	case NoteZtunnel:
		return n.Proxy + " is a recorded ztunnel: its workloads, Services and authorization policies are counted by type, without owners"
	case NoteLost:
		return fmt.Sprintf("%d resources of %s are not counted: the simulated sidecars hold too many different ones to keep all", n.N, n.Proxy)
	}
	return n.Text
}

// Node is what a proxy reported to istiod about its pod (the node of its bootstrap).
type Node struct {
	Type      string            `json:"type"` // sidecar, router or waypoint
	Namespace string            `json:"namespace"`
	Workload  string            `json:"workload,omitempty"`
	Pod       string            `json:"pod,omitempty"`
	Labels    map[string]string `json:"-"`
}

// TypeSize is the configuration of one type.
type TypeSize struct {
	Type      string `json:"type"`
	Resources int    `json:"resources"`
	DumpBytes int64  `json:"dump_bytes"`
	WireBytes int64  `json:"wire_bytes,omitempty"`
	// StaticBytes is the part of DumpBytes that no discovery service sent: it belongs to or comes
	// with the bootstrap, repeats a part of a listener, or is the dump's frame.
	StaticBytes int64 `json:"static_bytes,omitempty"`
}

func (t TypeSize) plus(o TypeSize) TypeSize {
	return TypeSize{o.Type, t.Resources + o.Resources, t.DumpBytes + o.DumpBytes, t.WireBytes + o.WireBytes, t.StaticBytes + o.StaticBytes}
}

// OwnerSize is the configuration of one owner.
type OwnerSize struct {
	Owner     Owner `json:"owner"`
	Resources int   `json:"resources"` // owned by it; they may contain parts of others
	DumpBytes int64 `json:"dump_bytes"`
	WireBytes int64 `json:"wire_bytes,omitempty"`
	// ShapedBytes counts bytes of other owners in resources that this one changed: clusters under a
	// DestinationRule.
	ShapedBytes int64 `json:"shaped_bytes,omitempty"`
}

func (s OwnerSize) plus(o OwnerSize) OwnerSize {
	return OwnerSize{o.Owner, s.Resources + o.Resources, s.DumpBytes + o.DumpBytes, s.WireBytes + o.WireBytes, s.ShapedBytes + o.ShapedBytes}
}

// Resource is one resource.
type Resource struct {
	Type      string `json:"type"`
	Name      string `json:"name"`
	Owner     Owner  `json:"owner"` // of the bytes around the parts of others
	DumpBytes int64  `json:"dump_bytes"`
	WireBytes int64  `json:"wire_bytes,omitempty"`
}

// Cluster is an outbound cluster with its endpoints.
type Cluster struct {
	Name      string `json:"name"`
	Owner     Owner  `json:"owner"`
	DumpBytes int64  `json:"dump_bytes"`
	WireBytes int64  `json:"wire_bytes,omitempty"`
	// Calls is the number of requests and connections to its current endpoints; nil if the proxy
	// was not asked.
	Calls *int64 `json:"calls,omitempty"`
}

type sizes struct {
	dump, wire int64
	resources  int
}

func (s sizes) plus(o sizes) sizes {
	return sizes{s.dump + o.dump, s.wire + o.wire, s.resources + o.resources}
}

// Scanner adds up the resources of one proxy. Use [NewScanner].
type Scanner struct {
	names    names
	types    map[string]TypeSize
	owners   map[claim]sizes
	shaped   map[Owner]int64
	clusters map[string]sizes
	largest  []large // some of them
	keep     int
	total    sizes
	dns      int
	partial  int // resources with incomplete JSON
}

// DefaultKeep is the number of the largest resources kept by name.
const DefaultKeep = 100

// NewScanner returns a Scanner that keeps the names of the largest resources, up to keep; 0 means
// DefaultKeep.
func NewScanner(keep int) *Scanner {
	if keep <= 0 {
		keep = DefaultKeep
	}
	n := names{hosts: map[string]Owner{}, clusters: map[string]claim{}, routes: map[string]routeUsers{}}
	return &Scanner{names: n, types: map[string]TypeSize{}, owners: map[claim]sizes{}, shaped: map[Owner]int64{},
		clusters: map[string]sizes{}, keep: keep}
}

// count adds a resource: its size as JSON and as protobuf, with the parts that the rules found in
// each form.
func (s *Scanner) count(typ string, static bool, j judged, size sizes, wireParts []part) {
	t := TypeSize{Type: typ, Resources: 1, DumpBytes: size.dump, WireBytes: size.wire}
	if static {
		t.StaticBytes = size.dump
	}
	s.types[typ] = s.types[typ].plus(t)
	if j.dns {
		s.dns++
	}
	rest := sizes{size.dump, size.wire, 1}
	s.total = s.total.plus(rest)
	for _, p := range j.parts {
		s.give(p.claim, sizes{dump: p.bytes})
		rest.dump -= p.bytes
	}
	for _, p := range wireParts {
		s.give(p.claim, sizes{wire: p.bytes})
		rest.wire -= p.bytes
	}
	s.give(j.rest, rest)
	if j.shapes != (Owner{}) && (s.shaped[j.shapes] > 0 || len(s.shaped) < maxNames) {
		s.shaped[j.shapes] += max(size.dump, size.wire)
	}
	if typ == TypeCluster || typ == TypeEndpoint {
		if direction, _, _, _, ok := SplitCluster(j.name); ok && direction == "outbound" {
			learn(s.clusters, j.name, s.clusters[j.name].plus(size))
		}
	}
	s.largest = append(s.largest, large{Resource{Type: typ, Name: j.name, DumpBytes: size.dump, WireBytes: size.wire}, j.rest})
	if len(s.largest) >= 2*s.keep {
		s.cutLargest()
	}
}

func (s *Scanner) give(c claim, share sizes) {
	if _, known := s.owners[c]; !known && len(s.owners) >= maxNames {
		c = by(tooMany)
	}
	s.owners[c] = s.owners[c].plus(share)
}

// Proxy returns the totals so far, under a name.
func (s *Scanner) Proxy(name string) Proxy {
	p := Proxy{Name: name, DumpBytes: s.total.dump, WireBytes: s.total.wire, Resources: s.total.resources, DNS: s.dns}
	if s.partial > 0 {
		p.Notes = append(p.Notes, Note{Code: NotePartial, N: s.partial})
	}
	p.Types = slices.SortedFunc(maps.Values(s.types), compareTypes)
	owners := map[Owner]OwnerSize{}
	for claimed, share := range s.owners {
		o := s.names.resolve(claimed)
		owners[o] = owners[o].plus(OwnerSize{o, share.resources, share.dump, share.wire, 0})
	}
	for o, bytes := range s.shaped {
		owners[o] = owners[o].plus(OwnerSize{Owner: o, ShapedBytes: bytes})
	}
	p.Owners = slices.SortedFunc(maps.Values(owners), compareSizes)
	s.cutLargest()
	for _, l := range s.largest {
		l.Owner = s.names.resolve(l.claim)
		p.Largest = append(p.Largest, l.Resource)
	}
	for name, size := range s.clusters {
		p.Clusters = append(p.Clusters, Cluster{Name: name, Owner: s.names.resolve(ofCluster(name)), DumpBytes: size.dump, WireBytes: size.wire})
	}
	slices.SortFunc(p.Clusters, func(a, b Cluster) int { return strings.Compare(a.Name, b.Name) })
	return p
}

func compareTypes(a, b TypeSize) int {
	return cmp.Or(cmp.Compare(b.DumpBytes, a.DumpBytes), cmp.Compare(b.WireBytes, a.WireBytes), cmp.Compare(a.Type, b.Type))
}

func compareSizes(a, b OwnerSize) int {
	return cmp.Or(cmp.Compare(b.DumpBytes, a.DumpBytes), cmp.Compare(b.WireBytes, a.WireBytes), compareOwners(a.Owner, b.Owner))
}

// large is a resource that may be among the largest, without its owner.
type large struct {
	Resource
	claim claim
}

// cutLargest sorts the resources that may be among the largest, and keeps as many as are wanted.
func (s *Scanner) cutLargest() {
	slices.SortFunc(s.largest, func(a, b large) int {
		return cmp.Or(cmp.Compare(b.DumpBytes, a.DumpBytes), cmp.Compare(b.WireBytes, a.WireBytes), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name))
	})
	s.largest = s.largest[:min(len(s.largest), s.keep)]
}
