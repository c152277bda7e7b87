package xds_test

import (
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"testing"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshtrial/meshtrial/drive/xds/wire"
	"github.com/meshtrial/meshtrial/testing/must"
)

// request is a request of either protocol as the fake server received it.
type request struct {
	typeURL, nonce, version, reject string
	subscribe, unsubscribe          []string
	initial                         map[string]string
	node                            string
}

func (r request) String() string {
	return fmt.Sprintf("%s sub=%v unsub=%v nonce=%q initial=%d reject=%v", wire.ShortName(r.typeURL), r.subscribe, r.unsubscribe, r.nonce, len(r.initial), r.reject != "")
}

// fakeStream is one stream of the fake server.
type fakeStream struct {
	server *fake
	silent bool // never answers: the server was silent when the stream was opened
	send   func(typeURL string, resources map[string]proto.Message, removed []string) error
	raw    func(m any) error
	mu     sync.Mutex
	got    []request
	nonces int
	end    chan error
}

// fake is an xDS server that answers every first request of a type with its
// resources, and pushes on command.
type fake struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer
	t       *testing.T
	grpc    *grpc.Server
	address string

	mu        sync.Mutex
	resources map[string]map[string]proto.Message // by type URL
	streams   []*fakeStream
	refuse    int // number of streams to reject
	silent    bool
	version   string // of resources
}

func newFake(t *testing.T) *fake {
	t.Helper()
	return newFakeAt(t, "127.0.0.1:0")
}

// ownAddress returns a loopback address that no other process uses. Its port is
// still free when its listener listens again.
func ownAddress() string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d:0", 64+pid>>16&63, pid>>8&255, pid&255)
}

func newFakeAt(t *testing.T, address string) *fake {
	t.Helper()
	s := &fake{t: t, grpc: grpc.NewServer(), resources: map[string]map[string]proto.Message{}, version: "7"}
	discovery.RegisterAggregatedDiscoveryServiceServer(s.grpc, s)
	l, err := net.Listen("tcp", address)
	must.OK(t, err)
	s.address = l.Addr().String()
	done := make(chan struct{})
	go func() { defer close(done); _ = s.grpc.Serve(l) }()
	t.Cleanup(func() { s.grpc.Stop(); <-done })
	s.set(wire.ClusterType, "a", &cluster.Cluster{Name: "a", ClusterDiscoveryType: &cluster.Cluster_Type{Type: cluster.Cluster_EDS}})
	s.set(wire.ClusterType, "static", &cluster.Cluster{Name: "static"})
	s.set(wire.EndpointType, "a", &endpoint.ClusterLoadAssignment{ClusterName: "a"})
	manager, err := anypb.New(&hcm.HttpConnectionManager{RouteSpecifier: &hcm.HttpConnectionManager_Rds{Rds: &hcm.Rds{RouteConfigName: "80"}}})
	must.OK(t, err)
	s.set(wire.ListenerType, "l", &listener.Listener{Name: "l", FilterChains: []*listener.FilterChain{{Filters: []*listener.Filter{
		{Name: "http", ConfigType: &listener.Filter_TypedConfig{TypedConfig: manager}}}}}})
	s.set(wire.RouteType, "80", &route.RouteConfiguration{Name: "80"})
	return s
}

func (s *fake) set(typeURL, name string, m proto.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resources[typeURL] == nil {
		s.resources[typeURL] = map[string]proto.Message{}
	}
	s.resources[typeURL][name] = m
}

func (s *fake) open() (*fakeStream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse > 0 {
		s.refuse--
		return nil, status.Error(codes.ResourceExhausted, "request rate limit exceeded")
	}
	one := &fakeStream{server: s, silent: s.silent, end: make(chan error, 1)}
	s.streams = append(s.streams, one)
	return one, nil
}

// answer sends the server's resources with the given names; all for a wildcard.
func (one *fakeStream) answer(typeURL string, names []string, wildcard bool) error {
	s := one.server
	out := map[string]proto.Message{}
	s.mu.Lock()
	silent := s.silent || one.silent
	for name, m := range s.resources[typeURL] {
		if wildcard || slices.Contains(names, name) {
			out[name] = m
		}
	}
	s.mu.Unlock()
	if silent {
		return nil
	}
	return one.send(typeURL, out, nil)
}

func (one *fakeStream) note(r request) (first bool) {
	one.mu.Lock()
	defer one.mu.Unlock()
	first = !slices.ContainsFunc(one.got, func(o request) bool { return o.typeURL == r.typeURL })
	one.got = append(one.got, r)
	return first
}

func (one *fakeStream) nonce() string {
	one.mu.Lock()
	defer one.mu.Unlock()
	one.nonces++
	return fmt.Sprintf("nonce-%p-%d", one, one.nonces)
}

func (one *fakeStream) requests() []request {
	one.mu.Lock()
	defer one.mu.Unlock()
	return slices.Clone(one.got)
}

func wild(typeURL string) bool {
	return slices.Contains([]string{wire.ClusterType, wire.ListenerType, wire.AddressType, wire.AuthorizationType, wire.WorkloadType}, typeURL)
}

// serve answers requests until the stream ends.
func (one *fakeStream) serve(recv func() (request, error)) error {
	failed := make(chan error, 1)
	go func() {
		for {
			r, err := recv()
			if err != nil {
				failed <- err
				return
			}
			first := one.note(r)
			if first || (r.nonce == "" && len(r.subscribe) > 0) {
				if err := one.answer(r.typeURL, r.subscribe, wild(r.typeURL)); err != nil {
					failed <- err
					return
				}
			}
		}
	}()
	select {
	case err := <-failed:
		return err
	case err := <-one.end:
		return err
	}
}

func (s *fake) DeltaAggregatedResources(g discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	one, err := s.open()
	if err != nil {
		return err
	}
	var sending sync.Mutex
	one.raw = func(m any) error { return g.SendMsg(m) }
	one.send = func(typeURL string, resources map[string]proto.Message, removed []string) error {
		sending.Lock()
		defer sending.Unlock()
		s.mu.Lock()
		version := s.version
		s.mu.Unlock()
		out := &discovery.DeltaDiscoveryResponse{TypeUrl: typeURL, Nonce: one.nonce(), SystemVersionInfo: "v", RemovedResources: removed}
		for name, m := range resources {
			body, err := anypb.New(m)
			if err != nil {
				return err
			}
			out.Resources = append(out.Resources, &discovery.Resource{Name: name, Version: version, Resource: body})
		}
		return g.Send(out)
	}
	return one.serve(func() (request, error) {
		m, err := g.Recv()
		if err != nil {
			return request{}, err
		}
		return request{typeURL: m.TypeUrl, nonce: m.ResponseNonce, reject: m.ErrorDetail.GetMessage(), subscribe: m.ResourceNamesSubscribe,
			unsubscribe: m.ResourceNamesUnsubscribe, initial: m.InitialResourceVersions, node: m.Node.GetId()}, nil
	})
}

func (s *fake) StreamAggregatedResources(g discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	one, err := s.open()
	if err != nil {
		return err
	}
	var sending sync.Mutex
	one.send = func(typeURL string, resources map[string]proto.Message, _ []string) error {
		sending.Lock()
		defer sending.Unlock()
		out := &discovery.DiscoveryResponse{TypeUrl: typeURL, Nonce: one.nonce(), VersionInfo: "v"}
		for _, m := range resources {
			body, err := anypb.New(m)
			if err != nil {
				return err
			}
			out.Resources = append(out.Resources, body)
		}
		return g.Send(out)
	}
	return one.serve(func() (request, error) {
		m, err := g.Recv()
		if err != nil {
			return request{}, err
		}
		return request{typeURL: m.TypeUrl, nonce: m.ResponseNonce, version: m.VersionInfo, reject: m.ErrorDetail.GetMessage(), subscribe: m.ResourceNames, node: m.Node.GetId()}, nil
	})
}

// live returns the streams opened so far.
func (s *fake) live() []*fakeStream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.streams)
}

// push sends resources to the newest n streams.
func (s *fake) push(n int, typeURL string, resources map[string]proto.Message, removed ...string) {
	s.t.Helper()
	streams := s.live()
	for _, one := range streams[len(streams)-n:] {
		if err := one.send(typeURL, resources, removed); err != nil {
			s.t.Error(err)
		}
	}
}
