package wire

// Methods of the aggregated discovery service, by variant of the protocol
// (service AggregatedDiscoveryService in envoy/service/discovery/v3/ads.proto).
const (
	DeltaMethod = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"
	SotWMethod  = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"
)
