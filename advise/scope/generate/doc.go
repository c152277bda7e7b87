// Package generate generates Istio's Sidecar resources from the actual calls between workloads, so
// that each proxy receives only what it needs.
//
//	proxies' counters, access logs, istio_requests_total, service graphs -> [Observations] \
//	objects of the API, the mesh's configuration                         -> [Inventory]     |-> [Generate] -> Result
//	bytes by owner of the proxies that were read                         -> [Scale]        /
//
// For each call the caller keeps the host, and the destinations of routes and ExternalNames
// (needs.go). A workload is narrowed only if its calls are known. Istio does not merge Sidecars: of
// a Sidecar that selects the pod, the one of its namespace and the one of the root namespace, only
// the first that exists applies. So each generated Sidecar is complete, and inherits the other
// settings of the one it replaces (ingress, outbound policy, pools). [Generate] checks its own
// result: leaving out a call to be kept is an error.
//
// The effects of a Sidecar are those in istiod of Istio 1.31 (pilot/pkg/model/sidecar.go). Sidecars
// do not concern gateways, waypoints and pods without a proxy.
package generate
