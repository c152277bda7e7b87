package istio

import (
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// requestsMoved are the requests of istiod that the levers do not name and that a
// limit which they name changes all the same, by factor, as they are installed: one
// above the limit comes down to it, and where none is installed a pod's request
// is its limit. See kubernetes.io/docs, Resource Management for Pods and Containers.
func requestsMoved(original appsv1.DeploymentSpec, l mesh.Levers) record.Cell {
	wanted, err := desiredDeployment(original, l)
	before, after := containerOf(&original.Template.Spec), containerOf(&wanted.Template.Spec)
	if err != nil || before == nil || after == nil { // whoever applies them says so
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

// requestOf is the request that a container of these resources gets.
func requestOf(of corev1.ResourceRequirements, name corev1.ResourceName) string {
	if _, there := of.Requests[name]; there {
		return amount(of.Requests, name)
	}
	return amount(of.Limits, name)
}
