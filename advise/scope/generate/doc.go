// Package generate writes Istio's Sidecar resources from who really talks to
// whom, so that each proxy is sent what it needs and no more.
//
//	proxies' counters  -> [Observations.AddCounters]   \
//	access logs        -> [Observations.ReadAccessLog]  |
//	istio_requests_total -> [Observations.AddMetric]    |-> [Generate] -> Result: Sidecars, what is rare, old or uncovered,
//	Kiali's graph      -> [Observations.ReadKiali]      |                 other ways, what it saves
//	service graphs     -> [Observations.AddGraph]      /
//	objects of the API, the mesh's configuration -> [Inventory.Read]
//	bytes by owner of the proxies that were read -> [Scale]
//
// The rule of what is kept is [Rule]; a workload that no source watched is
// never narrowed. Sidecars are not merged by Istio: of a Sidecar that selects
// the pod, the one of its namespace and the one of the root namespace, the first
// that exists holds alone. So each that is written is complete, and takes over
// what else the one before it says (ingress, outbound policy, pools).
//
// What istiod makes of a Sidecar is that of Istio 1.31
// (pilot/pkg/model/sidecar.go). Sidecars do not concern gateways, waypoints
// and pods without a proxy.
//
// Size: what is kept, whom it is for and what it saves are decided by one set of
// facts about a mesh; the sources that it is read from know its types.
package generate
