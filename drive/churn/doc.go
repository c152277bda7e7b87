// Package churn changes the configuration of a mesh on a schedule. Each change has a marker
// that distinguishes its effect in a proxy's configuration from that of every other change.
//
// A [Plan] is pure: kind, schedule, count, seed and population give the changes, their
// times, the objects they write, the markers and the proxies that need them. A [Driver]
// executes a plan against an API server in open loop: a change is sent at its planned time
// however slow the previous ones were. If the server rejects it, its event says why; nothing
// is retried and nothing is lost.
//
//	Spec -> NewPlan -> Plan{Changes} -> Driver: Prepare, Drive -> record.Event..., Cleanup
//
// # Markers
//
// Markers name the type of resource and, if known, the one resource that shows the change.
// Text must match as a whole: a longer address that begins with an address does not show it,
// so neither a letter nor a digit may follow Text. The kinds:
//
//	service                 cds: the name of the new Service's cluster
//	virtualservice          rds, route 80: a virtual host of that name
//	destinationrule         cds: a cluster of the new subset
//	gateway                 lds of gateways: a listener on a new port
//	serviceentry            cds: the name of the new host's cluster
//	sidecar                 lds: an egress listener on a new address
//	authorizationpolicy     lds, virtualInbound: a principal that does not exist
//	telemetry               lds, virtualInbound: a path in the filter of an access log
//	endpoints-scale         eds: the address of a pod that appears or disappears
//	endpoints-replace       eds: the old pod's address disappears, the new one's appears
//	endpoints-flap          eds: the address of an unready pod disappears and returns
//	rolling-restart         eds: all old addresses disappear, new ones appear
//	namespace-labels        cds: the Service of a namespace that discoverySelectors let in
//	pod-labels              eds: the pod's canonical revision in the endpoint's metadata
//	gateway-route           rds of gateways: a virtual host of that name
//	httproute               the same
//	no-op                   nothing
//	mixed                   a mixture of the kinds that every proxy sees
//
// If the population has ztunnels, changes of Services, ServiceEntries, endpoints and the
// labels of pods also appear in their resources (wds), by the same name, text or address,
// and changes of AuthorizationPolicies in wads. A proxy has a change when it shows all
// markers of its own types. If only the port of a Service changes, they show nothing.
//
// service+gateway+virtualservice is the published test: each repetition makes three changes,
// one after the other. Sidecars see the Service; gateways see the Service and the
// VirtualService that is bound to the Gateway.
//
// gateway-route is a VirtualService bound to one of the plan's own Gateways, and httproute a
// route of the Gateway API attached to such a Gateway. Both lead to a pod that answers
// ([Spec.Gateway]), so a request through a real gateway is served from then on
// ([Change.Host]). Both kinds of Gateway have one route from the start ([Plan.GatewayHost]):
// once it is served, the gateway works.
//
// # Endpoints
//
// With [EndpointsControllers] the driver only does what a user does (scales a Deployment,
// deletes a pod, makes one unready) and the real controllers commit the EndpointSlice. An
// event records the commit of the EndpointSlice, as seen by the driver's own watch.
// Addresses of pods that disappear are known and announced in advance. Addresses of new pods
// are announced as soon as a watch of the API server shows them, usually the watch of pods,
// a few milliseconds before their EndpointSlice. A later announcement matters only if the
// delay exceeds istiod's debounce time. With [EndpointsDirect] the driver keeps its own
// EndpointSlice for each Service, with addresses that it chose: every marker is known in
// advance, and the commit is the API server's answer. If istiod does not debounce endpoints,
// only the latter is reliable.
package churn
