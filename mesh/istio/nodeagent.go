package istio

import (
	"github.com/meshtrial/meshtrial/mesh"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// redirection is the annotation that Istio's node agent adds to a pod last, when its
// connections are redirected and ztunnel has accepted it. The agent does so however it learned
// of the pod: called by the network's plugins before containers start, or notified by the API
// server, in which case it retries at least every five seconds. istiod advertises HBONE only
// for pods with the annotation. See cni/pkg/nodeagent, AddPodToMesh, and
// pilot/pkg/serviceregistry/ambient, setTunnelProtocol.
const redirection = "ambient.istio.io/redirection"

// agentElsewhere is the namespace of Istio's node agent if it is not istiod's: istioctl uses
// it on GKE and OpenShift, and the readme of its chart recommends it. On GKE ztunnel is still
// in istiod's namespace. See operator/pkg/render, clusterSpecificSettings, and
// manifests/charts/istio-cni.
const agentElsewhere = metav1.NamespaceSystem

// nodeAgents returns the agents that redirect the connections of pods to their node's ztunnel.
// They are searched for outside istiod's namespace only if a study requested an ambient mesh.
func (f AsFound) nodeAgents() mesh.Agents {
	namespace := Namespace
	if set := f.daemonSets[agentName]; set != nil {
		namespace = set.Namespace
	}
	return mesh.Agents{Namespace: namespace, Selector: "k8s-app=" + agentName, Containers: []string{agentContainer}, Awaited: agentAwaited, Noun: "Istio's node agent",
		Brought: dataplaneMode + "=" + ambientMode, Mark: redirection, Marked: "enabled",
		Hint: `"pending" means that no ztunnel has accepted the pod; any other value means that the agent failed, or is configured to skip the pod (excludeNamespaces, enablementSelectors)`}
}
