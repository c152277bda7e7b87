// Package population is the simulated world of a control-plane trial:
// namespaces, Services, Deployments of pods on nodes that kwok plays, and
// configuration of the mesh that is only there to be many.
//
// Its pure part says, for given [Sizes], which objects there are ([Sizes.Objects])
// and, from the pods that the cluster made of them, who the simulated sidecars
// are ([Sizes.Identities]). Its other part, [World], brings a cluster from whatever
// population is in it to the wanted one by differences only, and waits until
// the cluster's own controllers have followed:
//
//	Sizes -> Objects -> create, update, delete -> ReplicaSets, Pods, EndpointSlices -> Identity...
//
// Only the Deployments, Services and nodes are made here. ReplicaSets, Pods
// and EndpointSlices are the work of the real controllers and scheduler, and
// pods run because kwok says so. Simulated pods are never injected, but carry
// the labels that an injected pod has, so that istiod takes them for mesh pods:
// security.istio.io/tlsMode makes others speak mTLS to them, and the canonical
// names stand in the metadata of their endpoints. Real pods may live in the
// same namespaces.
//
// All addresses of simulated pods lie in 240.0.0.0/4, which is reserved and
// never routed, and none is given twice in the life of a lab: an address
// in a proxy's configuration belongs to one pod for good.
package population
