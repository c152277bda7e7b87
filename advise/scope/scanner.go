package scope

import (
	"cmp"
	"container/heap"
	"fmt"
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

type sizeKey struct {
	typ   string
	claim claim
}

// Scanner adds up the resources of one proxy. Use [NewScanner].
type Scanner struct {
	names    names
	types    map[string]*TypeSize
	owners   map[sizeKey]*sizes
	shaped   map[Owner]int64
	clusters map[string]*sizes
	largest  smallestFirst
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
	return &Scanner{names: n, types: map[string]*TypeSize{}, owners: map[sizeKey]*sizes{}, shaped: map[Owner]int64{}, clusters: map[string]*sizes{}, keep: keep}
}

// count adds a resource: its size as JSON and as protobuf, with the parts that the rules found in
// each form.
func (s *Scanner) count(typ string, static bool, j judged, size sizes, wireParts []part) {
	t := s.types[typ]
	if t == nil {
		t = &TypeSize{Type: typ}
		s.types[typ] = t
	}
	t.Resources++
	t.DumpBytes += size.dump
	t.WireBytes += size.wire
	if static {
		t.StaticBytes += size.dump
	}
	if j.dns {
		s.dns++
	}
	s.total.resources++
	s.total.dump += size.dump
	s.total.wire += size.wire

	shares := map[claim]sizes{}
	rest := size
	for _, p := range j.parts {
		share := shares[p.claim]
		share.dump += p.bytes
		shares[p.claim] = share
		rest.dump -= p.bytes
	}
	for _, p := range wireParts {
		share := shares[p.claim]
		share.wire += p.bytes
		shares[p.claim] = share
		rest.wire -= p.bytes
	}
	own := shares[j.rest]
	shares[j.rest] = sizes{dump: own.dump + rest.dump, wire: own.wire + rest.wire}
	for c, share := range shares {
		if c == j.rest {
			share.resources = 1
		}
		s.give(sizeKey{typ, c}, share)
	}
	if j.shapes != (Owner{}) && (s.shaped[j.shapes] > 0 || len(s.shaped) < maxNames) {
		s.shaped[j.shapes] += max(size.dump, size.wire)
	}
	if typ == TypeCluster || typ == TypeEndpoint {
		if direction, _, _, _, ok := SplitCluster(j.name); ok && direction == "outbound" {
			c := s.clusters[j.name]
			if c == nil && len(s.clusters) < maxNames {
				c = &sizes{}
				s.clusters[j.name] = c
			}
			if c != nil {
				c.dump += size.dump
				c.wire += size.wire
			}
		}
	}
	s.remember(large{typ: typ, name: j.name, claim: j.rest, size: sizes{dump: size.dump, wire: size.wire}})
}

func (s *Scanner) give(key sizeKey, share sizes) {
	o := s.owners[key]
	if o == nil {
		if len(s.owners) >= maxNames {
			key = sizeKey{"", by(tooMany)}
			o = s.owners[key]
		}
		if o == nil {
			o = &sizes{}
			s.owners[key] = o
		}
	}
	o.dump += share.dump
	o.wire += share.wire
	o.resources += share.resources
}

// Proxy returns the totals so far, under a name.
func (s *Scanner) Proxy(name string) Proxy {
	p := Proxy{Name: name, DumpBytes: s.total.dump, WireBytes: s.total.wire, Resources: s.total.resources, DNS: s.dns}
	if s.partial > 0 {
		p.Notes = append(p.Notes, Note{Code: NotePartial, N: s.partial})
	}
	for _, t := range s.types {
		p.Types = append(p.Types, *t)
	}
	sortTypes(p.Types)
	owners := map[Owner]*OwnerSize{}
	of := func(o Owner) *OwnerSize {
		if owners[o] == nil {
			owners[o] = &OwnerSize{Owner: o}
		}
		return owners[o]
	}
	for key, share := range s.owners {
		o := of(s.names.resolve(key.claim))
		o.DumpBytes += share.dump
		o.WireBytes += share.wire
		o.Resources += share.resources
	}
	for owner, bytes := range s.shaped {
		of(owner).ShapedBytes += bytes
	}
	for _, o := range owners {
		p.Owners = append(p.Owners, *o)
	}
	slices.SortFunc(p.Owners, compareSizes)
	for _, l := range s.largest {
		p.Largest = append(p.Largest, Resource{Type: l.typ, Name: l.name, Owner: s.names.resolve(l.claim), DumpBytes: l.size.dump, WireBytes: l.size.wire})
	}
	slices.SortFunc(p.Largest, func(a, b Resource) int {
		return cmp.Or(cmp.Compare(b.DumpBytes, a.DumpBytes), cmp.Compare(b.WireBytes, a.WireBytes), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name))
	})
	for name, size := range s.clusters {
		p.Clusters = append(p.Clusters, Cluster{Name: name, Owner: s.names.resolve(ofCluster(name)), DumpBytes: size.dump, WireBytes: size.wire})
	}
	slices.SortFunc(p.Clusters, func(a, b Cluster) int { return strings.Compare(a.Name, b.Name) })
	return p
}

func sortTypes(types []TypeSize) {
	slices.SortFunc(types, func(a, b TypeSize) int {
		return cmp.Or(cmp.Compare(b.DumpBytes, a.DumpBytes), cmp.Compare(b.WireBytes, a.WireBytes), cmp.Compare(a.Type, b.Type))
	})
}

func compareSizes(a, b OwnerSize) int {
	return cmp.Or(cmp.Compare(b.DumpBytes, a.DumpBytes), cmp.Compare(b.WireBytes, a.WireBytes), compareOwners(a.Owner, b.Owner))
}

// large is a resource that may be among the largest.
type large struct {
	typ, name string
	claim     claim
	size      sizes
}

func (l large) less(m large) bool {
	return cmp.Or(cmp.Compare(l.size.dump, m.size.dump), cmp.Compare(l.size.wire, m.size.wire), strings.Compare(m.typ, l.typ), strings.Compare(m.name, l.name)) < 0
}

// smallestFirst is a heap of the largest resources so far.
type smallestFirst []large

func (h smallestFirst) Len() int           { return len(h) }
func (h smallestFirst) Less(i, j int) bool { return h[i].less(h[j]) }
func (h smallestFirst) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *smallestFirst) Push(x any)        { *h = append(*h, x.(large)) }
func (h *smallestFirst) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func (s *Scanner) remember(l large) {
	if len(s.largest) < s.keep {
		heap.Push(&s.largest, l)
	} else if s.largest[0].less(l) {
		s.largest[0] = l
		heap.Fix(&s.largest, 0)
	}
}
