package server

import (
	"context"
	"fmt"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// Fetch asks a control plane for everything that a node has: clusters, their
// endpoints, listeners, their routes.
func Fetch(ctx context.Context, conn grpc.ClientConnInterface, node *corev3.Node) (Configuration, error) {
	ctx, cancel := context.WithCancel(ctx) // ends the stream
	defer cancel()
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx, grpc.MaxCallRecvMsgSize(maxFile))
	if err != nil {
		return nil, fmt.Errorf("fetch configuration: %w", err)
	}
	c := Configuration{}
	for _, step := range []struct {
		typeURL string
		names   func() ([]string, error)
	}{
		{ClusterType, nil}, {EndpointType, c.endpointNames}, {ListenerType, nil}, {RouteType, c.routeNames},
	} {
		var names []string
		if step.names != nil {
			if names, err = step.names(); err != nil {
				return nil, fmt.Errorf("fetch configuration: %w", err)
			}
			if len(names) == 0 {
				continue
			}
		}
		request := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: step.typeURL, ResourceNamesSubscribe: names}
		if step.typeURL == ClusterType {
			request.Node = node
		}
		if err := stream.Send(request); err != nil {
			return nil, fmt.Errorf("fetch %s: %w", files[step.typeURL], err)
		}
		for c[step.typeURL] == nil {
			response, err := stream.Recv()
			if err != nil {
				return nil, fmt.Errorf("fetch %s: %w", files[step.typeURL], err)
			}
			if err := stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: response.GetTypeUrl(), ResponseNonce: response.GetNonce()}); err != nil {
				return nil, fmt.Errorf("fetch %s: %w", files[step.typeURL], err)
			}
			if response.GetTypeUrl() != step.typeURL {
				continue // a push of what is fetched already
			}
			c[step.typeURL] = []Resource{}
			for _, r := range response.GetResources() {
				any, err := proto.Marshal(r.GetResource())
				if err != nil {
					return nil, fmt.Errorf("fetch %s: %w", files[step.typeURL], err)
				}
				c[step.typeURL] = append(c[step.typeURL], Resource{Name: r.GetName(), Any: any})
			}
		}
	}
	c.sort()
	return c, nil
}

// endpointNames lists what clusters make a proxy subscribe to.
func (c Configuration) endpointNames() ([]string, error) {
	var names []string
	for _, r := range c[ClusterType] {
		var cluster clusterv3.Cluster
		if err := body(r, &cluster); err != nil {
			return nil, err
		}
		if cluster.GetType() != clusterv3.Cluster_EDS {
			continue
		}
		if name := cluster.GetEdsClusterConfig().GetServiceName(); name != "" {
			names = append(names, name)
		} else {
			names = append(names, r.Name)
		}
	}
	return names, nil
}

// routeNames lists what listeners make a proxy subscribe to.
func (c Configuration) routeNames() ([]string, error) {
	seen := map[string]bool{}
	var names []string
	for _, r := range c[ListenerType] {
		var listener listenerv3.Listener
		if err := body(r, &listener); err != nil {
			return nil, err
		}
		chains := listener.GetFilterChains()
		if d := listener.GetDefaultFilterChain(); d != nil {
			chains = append(chains, d)
		}
		for _, chain := range chains {
			for _, filter := range chain.GetFilters() {
				var http hcmv3.HttpConnectionManager
				if !filter.GetTypedConfig().MessageIs(&http) {
					continue
				}
				if err := filter.GetTypedConfig().UnmarshalTo(&http); err != nil {
					return nil, fmt.Errorf("listener %s: %w", r.Name, err)
				}
				if name := http.GetRds().GetRouteConfigName(); name != "" && !seen[name] {
					seen[name] = true
					names = append(names, name)
				}
			}
		}
	}
	return names, nil
}

// body reads a resource into a message of its type.
func body(r Resource, into proto.Message) error {
	any, err := r.any()
	if err != nil {
		return err
	}
	if err := any.UnmarshalTo(into); err != nil {
		return fmt.Errorf("resource %q: %w", r.Name, err)
	}
	return nil
}
