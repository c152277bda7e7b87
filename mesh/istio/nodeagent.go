package istio

import (
	"cmp"

	"github.com/meshtrial/meshtrial/mesh"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// redirection is the annotation that Istio's node agent gives a pod last, when its
// connections are redirected and ztunnel has taken it. It does so whatever way it came to
// the pod: called by the network's plugins, before containers start, or by the API
// server's word, in which case it tries again every five seconds at the longest. istiod
// says of a pod that has it, and of no other, that HBONE leads there. See cni/pkg/nodeagent,
// AddPodToMesh, and pilot/pkg/serviceregistry/ambient, setTunnelProtocol.
const redirection = "ambient.istio.io/redirection"

// agentElsewhere is where Istio's node agent is, if it is not beside istiod: istioctl puts it
// there on GKE and OpenShift, and the readme of its chart advises to. On GKE ztunnel is beside
// istiod all the same. See operator/pkg/render, clusterSpecificSettings, and
// manifests/charts/istio-cni.
const agentElsewhere = metav1.NamespaceSystem

// nodeAgents redirect the connections of pods to their node's ztunnel. They are looked for
// elsewhere than beside istiod where a study asked for an ambient mesh, and so found them.
func (r Revision) nodeAgents() mesh.Agents {
	return mesh.Agents{Namespace: cmp.Or(r.agentIn, Namespace), Selector: "k8s-app=" + agentName, Containers: []string{agentContainer}, Awaited: agentAwaited, Noun: "Istio's node agent",
		Brought: dataplaneMode + "=" + ambientMode, Mark: redirection, Marked: "enabled",
		Hint: `"pending" is a pod that no ztunnel has taken; with any other the agent had no success, or is told to leave it out (excludeNamespaces, enablementSelectors)`}
}
