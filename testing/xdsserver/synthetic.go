package xdsserver

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// syntheticPort is the port of all synthetic services.
const syntheticPort = 8080

// Synthetic generates the configuration of a sidecar in a mesh with this many
// HTTP services and endpoints of each, similar in shape and size to istiod's: for
// each service an EDS cluster and its endpoints, and one listener and one route
// configuration that all services share, since they have the same port. Service i
// is ServiceName(i).
func Synthetic(services, endpoints int) (Configuration, error) {
	route := &routev3.RouteConfiguration{Name: strconv.Itoa(syntheticPort)}
	assignments := make([]Resource, services)
	messages := map[string]proto.Message{}
	for i := range services {
		var err error
		if assignments[i], err = SyntheticEndpoints(i, endpoints, ""); err != nil {
			return nil, err
		}
		if messages[ClusterName(i)], err = syntheticCluster(i); err != nil {
			return nil, err
		}
		route.VirtualHosts = append(route.VirtualHosts, syntheticHost(i))
	}
	listener, err := syntheticListener(route.GetName())
	if err != nil {
		return nil, err
	}
	messages[listener.GetName()], messages[route.GetName()] = listener, route
	c := Configuration{EndpointType: assignments}
	for name, m := range messages {
		r, err := NewResource(name, m)
		if err != nil {
			return nil, err
		}
		c[r.Any.GetTypeUrl()] = append(c[r.Any.GetTypeUrl()], r)
	}
	c.sort()
	return c, nil
}

// ServiceName returns the host name of synthetic service i.
func ServiceName(i int) string {
	return fmt.Sprintf("service-%d.namespace-%d.svc.cluster.local", i, i%10)
}

// ClusterName returns the name of the cluster of synthetic service i, and of
// its endpoints.
func ClusterName(i int) string { return fmt.Sprintf("outbound|%d||%s", syntheticPort, ServiceName(i)) }

func address(host string, port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: host, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port}}}}
}

func aggregated() *corev3.ConfigSource {
	return &corev3.ConfigSource{ResourceApiVersion: corev3.ApiVersion_V3, InitialFetchTimeout: durationpb.New(0),
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}}}
}

// metadata returns istiod's metadata for what it makes, under the key istio.
func metadata(fields map[string]any) (*corev3.Metadata, error) {
	s, err := structpb.NewStruct(fields)
	if err != nil {
		return nil, err
	}
	return &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"istio": s}}, nil
}

func syntheticCluster(i int) (*clusterv3.Cluster, error) {
	service := map[string]any{
		"host": ServiceName(i), "name": fmt.Sprintf("service-%d", i), "namespace": fmt.Sprintf("namespace-%d", i%10)}
	about, err := metadata(map[string]any{
		"services": []any{service},
		"instead":  strings.Repeat("of mutual TLS and circuit breakers ", 25),
	})
	if err != nil {
		return nil, err
	}
	return &clusterv3.Cluster{
		Name:                 ClusterName(i),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{
			EdsConfig: aggregated(), ServiceName: ClusterName(i)},
		ConnectTimeout: durationpb.New(10 * time.Second),
		Metadata:       about,
	}, nil
}

// SyntheticEndpoints generates the endpoints of synthetic service i. A
// non-empty marker goes into the metadata of the first.
func SyntheticEndpoints(i, endpoints int, marker string) (Resource, error) {
	locality := &endpointv3.LocalityLbEndpoints{
		Locality: &corev3.Locality{}, LoadBalancingWeight: wrapperspb.UInt32(uint32(endpoints))}
	tls, err := structpb.NewStruct(map[string]any{"tlsMode": "istio"})
	if err != nil {
		return Resource{}, err
	}
	for j := range endpoints {
		revision := "latest"
		if marker != "" && j == 0 {
			revision = marker
		}
		workload := fmt.Sprintf("service-%d;namespace-%d;service-%d;%s;Kubernetes", i, i%10, i, revision)
		about, err := metadata(map[string]any{"workload": workload})
		if err != nil {
			return Resource{}, err
		}
		about.FilterMetadata["envoy.transport_socket_match"] = tls
		n := i*endpoints + j
		locality.LbEndpoints = append(locality.LbEndpoints, &endpointv3.LbEndpoint{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
				Address: address(fmt.Sprintf("10.%d.%d.%d", 128+n>>16&127, n>>8&255, n&255), syntheticPort)}},
			HealthStatus: corev3.HealthStatus_HEALTHY, Metadata: about, LoadBalancingWeight: wrapperspb.UInt32(1)})
	}
	return NewResource(ClusterName(i), &endpointv3.ClusterLoadAssignment{
		ClusterName: ClusterName(i), Endpoints: []*endpointv3.LocalityLbEndpoints{locality}})
}

func syntheticHost(i int) *routev3.VirtualHost {
	host := ServiceName(i)
	short := fmt.Sprintf("service-%d.namespace-%d", i, i%10)
	clusterIP := fmt.Sprintf("10.96.%d.%d", i>>8&255, i&255)
	v := &routev3.VirtualHost{Name: fmt.Sprintf("%s:%d", host, syntheticPort), IncludeRequestAttemptCount: true}
	for _, name := range []string{host, short, short + ".svc", clusterIP} {
		v.Domains = append(v.Domains, name, fmt.Sprintf("%s:%d", name, syntheticPort))
	}
	v.Routes = []*routev3.Route{{
		Name:      "default",
		Match:     &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
		Decorator: &routev3.Decorator{Operation: fmt.Sprintf("%s:%d/*", host, syntheticPort)},
		Action: &routev3.Route_Route{Route: &routev3.RouteAction{
			ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: ClusterName(i)},
			Timeout:          durationpb.New(0),
			RetryPolicy: &routev3.RetryPolicy{
				RetryOn:              "connect-failure,refused-stream,unavailable,cancelled,retriable-status-codes",
				NumRetries:           wrapperspb.UInt32(2),
				RetriableStatusCodes: []uint32{503}, HostSelectionRetryMaxAttempts: 5},
		}},
	}}
	return v
}

func syntheticListener(route string) (*listenerv3.Listener, error) {
	manager, err := anypb.New(&hcmv3.HttpConnectionManager{
		StatPrefix: "outbound_0.0.0.0_" + route,
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{
			Rds: &hcmv3.Rds{ConfigSource: aggregated(), RouteConfigName: route}},
	})
	if err != nil {
		return nil, err
	}
	return &listenerv3.Listener{
		Name: "0.0.0.0_" + route, Address: address("0.0.0.0", syntheticPort),
		TrafficDirection: corev3.TrafficDirection_OUTBOUND,
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name:       "envoy.filters.network.http_connection_manager",
			ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: manager}}}}},
	}, nil
}
