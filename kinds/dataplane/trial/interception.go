package trial

import (
	"sort"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// onLoopback resolves the names of all servers to the loopback address: without redirection the
// client's sidecar listens there, and finds the Service by the request's host.
func (t topology) onLoopback() []corev1.HostAlias {
	var names []string
	for _, w := range t.servers {
		names = append(names, hostOf(w))
	}
	sort.Strings(names)
	return []corev1.HostAlias{{IP: "127.0.0.1", Hostnames: names}}
}

// hostOf returns the full name of a workload's Service.
func hostOf(w mesh.Workload) string { return w.Name + "." + w.Namespace + ".svc.cluster.local" }

// targetOf returns the port that a Service leads to: the worker's or, without redirection, its
// sidecar's port for it.
func targetOf(w mesh.Workload, port protocol.Endpoint) intstr.IntOrString {
	for _, p := range protocol.All() {
		if p.Plain == port && w.Uncaptured() && p.Headers {
			return intstr.FromInt(mesh.OwnPort(port.Port))
		}
	}
	return intstr.FromInt(port.Port)
}
