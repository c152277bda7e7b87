package local

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// Node is one of a lab's Kubernetes nodes.
type Node struct {
	Name    string       `json:"name"`
	Address netip.Addr   `json:"address"`
	Pods    netip.Prefix `json:"pods_cidr"`
	Region  string       `json:"region,omitempty"`
	Zone    string       `json:"zone,omitempty"`
}

// MaxNodes is the maximum number of nodes: each adds four programs on one machine,
// and takes about 0.3 GB.
const MaxNodes = 16

// podsPerNodeBits is the prefix length of the address range of a node's pods when
// there are several nodes. The range is four times [MaxPods], as new pods come before
// old ones go.
const podsPerNodeBits = 22

// defaultRegion is the region of zones given without one.
const defaultRegion = "lab"

// Labels of a node's place, which its kubelet may set itself.
const (
	labelRegion = "topology.kubernetes.io/region"
	labelZone   = "topology.kubernetes.io/zone"
)

// place is the region and zone of a node.
type place struct{ region, zone string }

// placesOf assigns zones, each ZONE or REGION/ZONE, to nodes in turn. Without zones
// each of several nodes has its own, and a single node none.
func placesOf(nodes int, zones []string) ([]place, error) {
	if nodes < 1 || nodes > MaxNodes {
		return nil, errs.Usage("a lab can have 1 to %d nodes, not %d", MaxNodes, nodes)
	}
	if len(zones) > nodes {
		return nil, errs.WithHint(errs.Usage("%d zones are more than the lab's nodes (%d)", len(zones), nodes), "--nodes %d", len(zones))
	}
	var dealt []place
	for _, text := range zones {
		region, zone, both := strings.Cut(text, "/")
		if !both {
			region, zone = defaultRegion, text
		}
		for _, name := range []string{region, zone} {
			if name == "" || len(validation.IsValidLabelValue(name)) > 0 {
				return nil, errs.WithHint(errs.Usage("zone %q: %q is not a valid label value", text, name), "write ZONE or REGION/ZONE, of letters, digits, - and _")
			}
		}
		dealt = append(dealt, place{region, zone})
	}
	for i := range nodes {
		switch {
		case len(zones) > 0 && i >= len(zones):
			dealt = append(dealt, dealt[i%len(zones)])
		case len(zones) == 0 && nodes == 1:
			dealt = append(dealt, place{})
		case len(zones) == 0:
			dealt = append(dealt, place{defaultRegion, fmt.Sprintf("zone-%d", i+1)})
		}
	}
	return dealt, nil
}

// PlannedNodes returns the nodes that a lab with this number of nodes in these zones
// would have (see [Options]), without addresses.
func PlannedNodes(nodes int, zones []string) ([]Node, error) {
	places, err := placesOf(nodes, zones)
	if err != nil {
		return nil, err
	}
	return named(places), nil
}

// named gives nodes their names.
func named(places []place) []Node {
	var nodes []Node
	for i, p := range places {
		name := nodeName
		if len(places) > 1 {
			name = fmt.Sprintf("%s-%d", nodeName, i+1)
		}
		nodes = append(nodes, Node{Name: name, Region: p.region, Zone: p.zone})
	}
	return nodes
}

// nodesAt gives nodes their names and addresses. A single node has the lab's
// addresses; several nodes have parts of its ranges.
func (n network) nodesAt(places []place) []Node {
	nodes := named(places)
	if len(nodes) == 1 {
		nodes[0].Address, nodes[0].Pods = n.Node.Addr(), n.Pods
		return nodes
	}
	address, pods := n.Nodes.Masked().Addr(), netip.PrefixFrom(n.Pods.Masked().Addr(), podsPerNodeBits)
	for i := range nodes {
		address = address.Next()
		nodes[i].Address, nodes[i].Pods = address, pods
		pods = following(pods)
	}
	return nodes
}

// following returns the range of the same size after an IPv4 range.
func following(p netip.Prefix) netip.Prefix {
	first := p.Masked().Addr().As4()
	next := binary.BigEndian.Uint32(first[:]) + 1<<(32-p.Bits())
	return netip.PrefixFrom(netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, next))), p.Bits())
}

// labels returns the labels of the node's place in the form of the kubelet's
// --node-labels, or "" if it has none.
func (n Node) labels() string {
	if n.Zone == "" {
		return ""
	}
	return labelRegion + "=" + n.Region + "," + labelZone + "=" + n.Zone
}

// several reports whether the lab's nodes are separate processes below its init.
func (s *spec) several() bool { return len(s.Nodes) > 1 }

// hostname returns the host name of the machine of a spec.
func (s *spec) hostname() string {
	if s.Self.Name == "" {
		return nodeName
	}
	return s.Self.Name
}

// nodeDir returns the folder of one of several nodes.
func (d labDir) nodeDir(name string) labDir { return labDir(d.join("nodes", name)) }

// nodeStores returns the folder of the image stores of a lab's nodes: next to the
// store that they are made from, so that links can share files.
func nodeStores(store, id string) string { return imageStore{store}.nodes(id) }

// of returns the spec of one of several nodes. It does not mention the others.
func (s *spec) of(n Node) *spec {
	out := *s
	out.Self, out.Nodes = n, nil
	out.Dir = s.Dir.nodeDir(n.Name)
	out.Cgroup = s.Cgroup + "/" + n.Name
	out.ImageStore = imageStore{s.ImageStore}.node(s.ID, n.Name).dir
	return &out
}

// nodeObjects returns the Node objects to create before their kubelets register, with
// the addresses of their pods. A single node needs none.
func nodeObjects(nodes []Node) []byte {
	if len(nodes) < 2 {
		return nil
	}
	var b strings.Builder
	for _, n := range nodes {
		fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Node\nmetadata: {name: %s, labels: {%s: %q, %s: %q}}\nspec: {podCIDR: %s, podCIDRs: [%[6]s]}\n",
			n.Name, labelRegion, n.Region, labelZone, n.Zone, n.Pods)
	}
	return []byte(b.String())
}
