// Package population is the simulated world of a control-plane trial: namespaces,
// Services, Deployments of pods on nodes that kwok simulates, and mesh configuration
// that exists only for its number.
//
// The pure part computes the objects for given [Sizes] ([Sizes.Objects]) and, from the
// pods that the cluster made of them, the identities of simulated proxies
// ([Sizes.Identities]). The other part, [World], brings a cluster from whatever
// population it has to the wanted one by differences only, and waits until the
// cluster's own controllers have followed:
//
//	Sizes -> Objects -> create, update, delete -> ReplicaSets, Pods, EndpointSlices -> Identity...
//
// The package creates only Deployments, Services and nodes. The real controllers and
// scheduler make ReplicaSets, Pods and EndpointSlices, and kwok runs the pods.
// Simulated pods are not injected but carry the labels of injected pods, so that istiod
// takes them for mesh pods: security.istio.io/tlsMode makes others speak mTLS to them,
// and the metadata of their endpoints has the canonical names. Real pods may live in
// the same namespaces.
//
// Addresses of simulated pods are in 240.0.0.0/4, which is reserved and never routed.
// None is assigned twice in the life of a lab, so an address in a proxy's configuration
// always means one pod.
package population
