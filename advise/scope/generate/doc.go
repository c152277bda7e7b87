// Package generate writes Istio's Sidecar resources from who really talks to whom, so that each proxy
// is sent what it needs and no more.
//
//	proxies' counters, access logs, istio_requests_total, service graphs -> [Observations] \
//	objects of the API, the mesh's configuration                         -> [Inventory]     |-> [Generate] -> Result
//	bytes by owner of the proxies that were read                         -> [Scale]        /
//
// Of each call the caller keeps the host, and what routes and ExternalNames lead to (needs.go). A
// workload is narrowed only where it is known whom it calls. Sidecars are not merged by
// Istio: of a Sidecar that selects the pod, the one of its namespace and the one of the root namespace,
// the first that exists holds alone. So each that is written is complete, and takes over what else the
// one before it says (ingress, outbound policy, pools). [Generate] checks its own result: one that would
// leave out a call to be kept is an error.
//
// What istiod makes of a Sidecar is that of Istio 1.31 (pilot/pkg/model/sidecar.go). Sidecars do not
// concern gateways, waypoints and pods without a proxy.
package generate
