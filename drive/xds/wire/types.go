package wire

// Type URLs of resources.
const (
	ClusterType   = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	EndpointType  = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	ListenerType  = "type.googleapis.com/envoy.config.listener.v3.Listener"
	RouteType     = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
	SecretType    = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
	ExtensionType = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig"
	NameTableType = "type.googleapis.com/istio.networking.nds.v1.NameTable"

	// Types of an ambient mesh. Ztunnels subscribe to both, sidecars that speak
	// HBONE to the first.
	AddressType       = "type.googleapis.com/istio.workload.Address"
	AuthorizationType = "type.googleapis.com/istio.security.Authorization"
	WorkloadType      = "type.googleapis.com/istio.workload.Workload"
)

// hcmType is the type URL of HTTP connection managers.
const hcmType = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"

// ShortName returns the usual abbreviation of a type of resource: cds, eds,
// lds, rds, sds, ecds, nds, wds, wads; "" for any other.
func ShortName(typeURL string) string {
	switch typeURL {
	case ClusterType:
		return "cds"
	case EndpointType:
		return "eds"
	case ListenerType:
		return "lds"
	case RouteType:
		return "rds"
	case SecretType:
		return "sds"
	case ExtensionType:
		return "ecds"
	case NameTableType:
		return "nds"
	case AddressType, WorkloadType:
		return "wds"
	case AuthorizationType:
		return "wads"
	}
	return ""
}
