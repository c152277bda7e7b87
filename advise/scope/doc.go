// Package scope says what the configuration of a proxy weighs and who brought
// it: which Service, VirtualService, DestinationRule, ServiceEntry, Gateway,
// AuthorizationPolicy... is behind how many bytes.
//
//	config dump of an Envoy or a ztunnel -> [ReadDump] \
//	what a simulated sidecar was sent -> [ReadRecorded] -> Proxy -> [Merge] -> Report
//	/clusters of the admin interface -> [ReadCalls]     -> Proxy.SetCalls
//
// Every byte is counted once. A resource is cut where Istio writes who an
// inner part is for (virtual hosts and routes, filter chains, authorization
// policies); what lies around the parts goes to the owner of the resource.
// Owners come from the names and metadata that istiod gives to resources; the
// rules are in rules.go. An EnvoyFilter leaves no name behind; what it adds is
// known from its own text ([ReadFilters]). What istiod makes for itself is kind
// "mesh", what no rule explains is kind "unattributed", and both are shown like
// any other, so that the sums by type, by resource and by owner are the total.
//
// A dump says what a proxy holds, not what it uses. Whether a cluster was
// called takes the proxy's counters.
package scope
