package xds

import (
	"cmp"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// A ztunnel is an xDS client without an agent or Envoy (istio/ztunnel, src/xds/client.rs).
// It subscribes to all addresses and all authorization policies at once, sends its node in
// both first requests of a stream, and acknowledges each response as soon as it has applied
// it. On a new stream it sends the version of every resource that it holds, so that istiod
// sends only what has changed.

// ztunnelNode returns the node of a ztunnel as Istio's charts start it without a profile.
// The ambient profile adds ENABLE_HBONE to its metadata, which istiod ignores: every
// ztunnel speaks HBONE.
func (s *Spec) ztunnelNode(p *Proxy) ([]byte, error) {
	return encoded(&corev3.Node{
		Id: NodeZtunnel + "~" + p.IP + "~" + p.Name + "." + p.Namespace + "~" + p.Namespace + ".svc.cluster.local", // whatever the domain
	}, map[string]any{
		"NAME": p.Name, "NAMESPACE": p.Namespace, "INSTANCE_IPS": p.IP, "NODE_NAME": p.Node,
		"CLUSTER_ID": cmp.Or(s.Mesh.ClusterID, "Kubernetes"), "ISTIO_VERSION": s.Mesh.version(),
	})
}

// Bounds of a ztunnel's back-off, which has no jitter (run_loop in
// src/xds/client.rs).
const (
	ztunnelRestLeast = 10 * time.Millisecond
	ztunnelRestMost  = 15 * time.Second
)

// ztunnelRest returns how long a ztunnel waits before it reconnects: twice as long as the
// last time; 10 ms if the stream ended in the way it does when istiod goes away or recycles
// connections; no time if istiod ended it without an error. How long the connection had
// worked makes no difference.
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

// speaksHBONE reports whether a proxy's metadata has ENABLE_HBONE, in either xDS mode.
func (s *Spec) speaksHBONE(p *Proxy) bool { return s.HBONE && p.nodeType() != NodeZtunnel }

// discoversWorkloads reports whether a proxy subscribes to all workloads in addition to its
// own configuration. With ENABLE_HBONE in the proxy metadata, as Istio's ambient profile
// sets it for all sidecars, pilot-agent gives Envoy an extension for that unless
// PEER_METADATA_DISCOVERY disables it (pkg/bootstrap/config.go in istio/istio). Envoy's
// cluster manager subscribes to clusters first, and the extension right after it
// (contrib/istio/filters/common/source/workload_discovery.cc).
func (s *Spec) discoversWorkloads(p *Proxy) bool {
	return s.speaksHBONE(p) && s.Mode == ModeDelta
}
