package site

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/record"
)

// OpenNodes lists the nodes on which the scheduler may place any pod.
func OpenNodes(ctx context.Context, kube kubernetes.Interface) ([]corev1.Node, error) {
	all, err := kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the nodes: %w", err)
	}
	return slices.DeleteFunc(all.Items, func(n corev1.Node) bool { return !takesPods(&n) }), nil
}

// takesPods reports whether the scheduler may place any pod on a node.
func takesPods(n *corev1.Node) bool {
	if n.Spec.Unschedulable || n.DeletionTimestamp != nil || n.Labels[corev1.LabelHostname] == "" {
		return false
	}
	for _, taint := range n.Spec.Taints {
		if taint.Effect != corev1.TaintEffectPreferNoSchedule {
			return false
		}
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Zone returns a node's zone as REGION/ZONE: zones of two regions may share a name.
func Zone(n *corev1.Node) string {
	region, zone := n.Labels[corev1.LabelTopologyRegion], n.Labels[corev1.LabelTopologyZone]
	if region == "" || zone == "" {
		return zone
	}
	return region + "/" + zone
}

// Kind describes a node's machine as the API server knows it.
func Kind(n *corev1.Node) string {
	info := n.Status.NodeInfo
	return fmt.Sprintf("%s, %s, %s CPUs, Linux %s", n.Labels[corev1.LabelInstanceTypeStable], info.Architecture, n.Status.Capacity.Cpu(), info.KernelVersion)
}

// NodeAt updates at with what can be read about the node.
func (s *Site) NodeAt(ctx context.Context, name string, at record.NodeAt) record.NodeAt {
	ctx, cancel := context.WithTimeout(ctx, StopTimeout) // no response if it has just died
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

// NodesOf returns the nodes of parts, by name. If a part has pods on several nodes, those
// after the first are named by [record.OfHand].
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
