package xds

import (
	"cmp"
	"time"

	"github.com/meshtrial/meshtrial/drive/xds/wire"
)

// A ztunnel is a client of istiod's by itself, without agent and Envoy
// (istio/ztunnel, src/xds/client.rs). It subscribes to all addresses and all
// authorization policies at once, says in both first requests of a stream who it is,
// and acknowledges each response as soon as it has taken it. On a new stream it says
// which version it holds of every resource, so that istiod sends what has changed.

// ztunnelNode is what a ztunnel says of itself as Istio's charts start it without a profile.
// By the profile ambient its metadata have ENABLE_HBONE too, of which istiod makes nothing:
// every ztunnel speaks HBONE.
func (s *Spec) ztunnelNode(p *Proxy) ([]byte, error) {
	n := wire.Node{
		ID: NodeZtunnel + "~" + p.IP + "~" + p.Name + "." + p.Namespace + "~" + p.Namespace + ".svc.cluster.local", // whatever the domain
		Metadata: map[string]any{
			"NAME": p.Name, "NAMESPACE": p.Namespace, "INSTANCE_IPS": p.IP, "NODE_NAME": p.Node,
			"CLUSTER_ID": cmp.Or(s.Mesh.ClusterID, "Kubernetes"), "ISTIO_VERSION": s.Mesh.version(),
		},
	}
	if s.OnDemand { // which ztunnel refuses beside a DNS proxy
		n.Metadata["DNS_CAPTURE"] = "false"
	}
	return n.Append(nil)
}

// everything is what a subscription to all resources names.
var everything = []string{"*"}

// Bounds of a ztunnel's back-off, which nothing makes random (run_loop in
// src/xds/client.rs).
const (
	ztunnelRestLeast = 10 * time.Millisecond
	ztunnelRestMost  = 15 * time.Second
)

// ztunnelRest is how long a ztunnel waits before it tries again: twice as long as the
// last time, but 10 ms where a stream ended as they do when istiod goes away or
// recycles connections, and not at all where istiod ended it without an error. A
// connection that worked for a while does not shorten it otherwise.
func (p *proxy) ztunnelRest(had bool, reason string) time.Duration {
	if had {
		switch reason {
		case "ok":
			p.rests = ztunnelRestLeast
			return 0
		case reasonConnection, "unknown", "canceled", "deadline-exceeded": // a broken connection is an unknown error to it
			p.rests = ztunnelRestLeast
			return p.rests
		}
	}
	p.rests = min(ztunnelRestMost, 2*max(p.rests, ztunnelRestLeast))
	return p.rests
}

// speaksHBONE says that a proxy's metadata has it, in whichever mode it asks.
func (s *Spec) speaksHBONE(p *Proxy) bool { return s.HBONE && p.nodeType() != NodeZtunnel }

// discoversWorkloads says that a proxy subscribes to all workloads beside its own
// configuration. A pilot-agent whose proxy metadata has ENABLE_HBONE, as Istio's
// ambient profile has it for all sidecars, gives Envoy an extension for that, unless it is
// told not to by PEER_METADATA_DISCOVERY (pkg/bootstrap/config.go in istio/istio).
// Envoy's cluster manager subscribes to clusters first, and the extension right after
// it (contrib/istio/filters/common/source/workload_discovery.cc).
func (s *Spec) discoversWorkloads(p *Proxy) bool {
	return s.speaksHBONE(p) && s.Mode == ModeDelta
}
