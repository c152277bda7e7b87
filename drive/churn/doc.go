// Package churn changes the configuration of a mesh on a schedule, each
// change with a marker by which its effect in a proxy's configuration can be
// told from every other change's.
//
// A [Plan] is pure: kind, schedule, count, seed and population give the
// changes, their times, the objects they write, the markers and who needs
// them. A [Driver] carries a plan out against an API server in open loop: a
// change leaves at its planned time however slow the ones before it were, and
// when the server does not take it, its event says why; nothing is repeated
// and nothing is lost.
//
//	Spec -> NewPlan -> Plan{Changes} -> Driver: Prepare, Drive -> record.Event..., Cleanup
//
// # What shows a change
//
// Markers name the type of resource and, where it is known, the one resource
// that shows the change. Text must be found as a whole: an address is not
// shown by a longer one that begins with it, so what follows Text must be no
// letter and no digit. The kinds:
//
//	service                 cds: the name of the new Service's cluster
//	virtualservice          rds, route 80: a virtual host of that name
//	destinationrule         cds: a cluster of the new subset
//	gateway                 lds of gateways: a listener on a port of its own
//	serviceentry            cds: the name of the new host's cluster
//	sidecar                 lds: an egress listener on an address of its own
//	authorizationpolicy     lds, virtualInbound: a principal that nobody has
//	telemetry               lds, virtualInbound: a path in the filter of an access log
//	endpoints-scale         eds: the address of a pod that comes, or is gone
//	endpoints-replace       eds: the old pod's address is gone, the new one's there
//	endpoints-flap          eds: the address of a pod that is not ready is gone, and back
//	rolling-restart         eds: all old addresses are gone, new ones there
//	namespace-labels        cds: the Service of a namespace that discoverySelectors let in
//	pod-labels              eds: the pod's canonical revision in the endpoint's metadata
//	gateway-route           rds of gateways: a virtual host of that name
//	httproute               the same
//	no-op                   nothing
//	mixed                   a mixture of the kinds that every proxy sees
//
// Where the population has ztunnels, changes of Services, ServiceEntries, endpoints and
// the labels of pods show in what these are told of (wds), by the same name, text or
// address, and those of AuthorizationPolicies in wads; a proxy has a change when it
// shows all markers of its own types. Of a Service that gets another port they show nothing.
//
// service+gateway+virtualservice is the published test: each repetition makes
// three changes, one after the other, of which sidecars see the Service and
// gateways the Service and the VirtualService that is bound to the Gateway.
//
// gateway-route is a VirtualService that is bound to a Gateway of the plan's own,
// httproute a route of the Gateway API attached to such a Gateway; both lead to a pod
// that answers ([Spec.Gateway]), so that a request through a real gateway is served from
// then on ([Change.Host]). Both kinds of Gateway have one route from the beginning
// ([Plan.GatewayHost]): one that is served says that the gateway is.
//
// # Endpoints
//
// With [EndpointsControllers] the driver only does what a user does (scales
// a Deployment, deletes a pod, makes one unready) and the real controllers
// commit the EndpointSlice; the commit that an event records is that of
// the EndpointSlice, by the driver's own watch. The addresses of pods that go
// are known and announced before; those of pods that come are announced as
// soon as a watch of the API server shows them, as a rule that of pods, a few
// milliseconds before their EndpointSlice. An announcement that comes after it
// matters only where that is longer than istiod debounces. With
// [EndpointsDirect] the driver keeps an EndpointSlice of its own for each
// Service, with addresses that it chose: every marker is known before, and the
// commit is the API server's answer. Where istiod does not debounce endpoints
// only the latter is certain.
package churn
