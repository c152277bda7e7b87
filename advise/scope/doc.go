// Package scope measures the configuration of proxies and attributes its bytes to the Services,
// VirtualServices, DestinationRules, ServiceEntries, Gateways, AuthorizationPolicies... behind it.
//
//	config dump of an Envoy or a ztunnel -> [ReadDump] \
//	what a simulated sidecar was sent -> [ReadRecorded] -> Proxy -> [Merge] -> Report
//	/clusters of the admin interface -> [ReadCounts]    -> Proxy.SetCalls
//
// Every byte is counted once, so the sums by type, resource and owner equal the total. A resource
// is divided where Istio records whom an inner part is for (virtual hosts, routes, filter chains,
// policies); the rest goes to the owner of the resource. Owners follow from the names and metadata
// that istiod writes (rules.go). An EnvoyFilter leaves no name, but its own text says what it adds
// ([ReadFilters]). Istiod's own parts have kind "mesh", unexplained ones "unattributed".
//
// A dump shows what a proxy holds, not what it uses: that requires its counters.
package scope
