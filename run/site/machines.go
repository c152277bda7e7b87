package site

import (
	"context"
	"fmt"
	"slices"

	"github.com/meshtrial/meshtrial/record"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Zone is a node's zone as REGION/ZONE: zones of two regions may have one name.
func Zone(n *corev1.Node) string {
	region, zone := n.Labels[corev1.LabelTopologyRegion], n.Labels[corev1.LabelTopologyZone]
	if region == "" || zone == "" {
		return zone
	}
	return region + "/" + zone
}

// Kind is what the API server knows of a node's machine, in words.
func Kind(n *corev1.Node) string {
	info := n.Status.NodeInfo
	return fmt.Sprintf("%s, %s, %s CPUs, Linux %s", n.Labels[corev1.LabelInstanceTypeStable], info.Architecture, n.Status.Capacity.Cpu(), info.KernelVersion)
}

// NodeAt is a node with what may be read of it, in place of what was known before.
func (s *Site) NodeAt(ctx context.Context, name string, at record.NodeAt) record.NodeAt {
	ctx, cancel := context.WithTimeout(ctx, StopTimeout) // of one that has just died nobody answers
	defer cancel()
	at.Name = name
	node, err := s.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		at.Zone = Zone(node)
	}
	if observer, ok := s.Observers[name]; ok {
		if m, err := observer.Machine(ctx); err == nil {
			at.Machine = m.Words()
		}
	} else if err == nil {
		at.Machine = Kind(node)
	}
	return at
}

// NodesOf are the nodes of parts, by name; where a part has pods on several, those beside
// the first by [record.OfHand].
func (s *Site) NodesOf(ctx context.Context, parts map[string][]string) map[string]record.NodeAt {
	known, out := map[string]record.NodeAt{}, map[string]record.NodeAt{}
	for part, names := range parts {
		names = slices.Sorted(slices.Values(names))
		for i, name := range slices.Compact(names) {
			if _, ok := known[name]; !ok {
				known[name] = s.NodeAt(ctx, name, record.NodeAt{})
			}
			out[record.OfHand(part, i)] = known[name]
		}
	}
	return out
}
