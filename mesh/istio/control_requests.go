package istio

import (
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// requestsMoved returns the installed requests of istiod that the levers do not name
// but a named limit nevertheless changes, by factor. A request above the limit is
// reduced to it, and without an installed request the limit becomes the pod's
// request. See kubernetes.io/docs, Resource Management for Pods and Containers.
func requestsMoved(original appsv1.DeploymentSpec, l mesh.Levers) record.Cell {
	wanted, err := desiredDeployment(original, l)
	before, after := containerOf(&original.Template.Spec), containerOf(&wanted.Template.Spec)
	if err != nil || before == nil || after == nil { // reported when they are applied
		return nil
	}
	var out record.Cell
	for _, r := range resourceLevers(l) {
		was, is := requestOf(before.Resources, r.name), requestOf(after.Resources, r.name)
		if r.requested() || was == is {
			continue
		}
		if out == nil {
			out = record.Cell{}
		}
		out[r.factor+"_request"] = was
	}
	return out
}

// requestOf returns the effective request of a container with these resources.
func requestOf(of corev1.ResourceRequirements, name corev1.ResourceName) string {
	if _, there := of.Requests[name]; there {
		return amount(of.Requests, name)
	}
	return amount(of.Limits, name)
}
