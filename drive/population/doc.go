// Package population manages the simulated world of a control-plane trial: namespaces, Services,
// Deployments of pods on nodes that kwok simulates, and mesh configuration that only adds to the
// number of objects.
//
// The pure part computes the objects for given [Sizes] ([Sizes.Objects]) and, from the pods that
// the cluster made of them, the identities of simulated proxies ([Sizes.Identities]). The other
// part, [World], changes whatever population a cluster has into the wanted one, by differences
// only, and waits until the cluster's own controllers have caught up:
//
//	Sizes -> Objects -> create, update, delete -> ReplicaSets, Pods, EndpointSlices -> Identity...
//
// The package creates only Deployments, Services and nodes. The real controllers and scheduler
// create ReplicaSets, Pods and EndpointSlices, and kwok runs the pods. Simulated pods are not
// injected but carry the labels of injected pods, so that istiod treats them as mesh pods:
// security.istio.io/tlsMode makes others speak mTLS to them, and the metadata of their endpoints
// has the canonical names. Real pods may live in the same namespaces.
//
// Addresses of simulated pods are in 240.0.0.0/4, which is reserved and never routed. None is
// assigned twice in the life of a lab, so an address in a proxy's configuration always identifies
// one pod.
package population
