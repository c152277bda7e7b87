package xdsserver

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statusv3 "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/internal/confile"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/loopback"
	"github.com/meshtrial/meshtrial/testing/must"
)

// serving starts a server with a synthetic configuration, and returns a client
// for it.
func serving(t *testing.T, services int) (*Server, discoveryv3.AggregatedDiscoveryServiceClient) {
	t.Helper()
	c, err := Synthetic(services, 2)
	must.OK(t, err)
	s := New(c)
	conn, err := grpc.NewClient("passthrough:///"+loopback.Serve(t, s.Serve, s.Close),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	must.OK(t, err)
	t.Cleanup(func() { conn.Close() })
	return s, discoveryv3.NewAggregatedDiscoveryServiceClient(conn)
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

var node = &corev3.Node{Id: "sidecar~192.0.2.1~a.b~b.svc.cluster.local"}

func names(m *discoveryv3.DeltaDiscoveryResponse) (out []string) {
	for _, r := range m.GetResources() {
		out = append(out, r.GetName())
	}
	return out
}

func TestDelta(t *testing.T) {
	s, client := serving(t, 3)
	stream, err := client.DeltaAggregatedResources(deadline(t))
	must.OK(t, err)
	ask := func(m *discoveryv3.DeltaDiscoveryRequest) {
		t.Helper()
		must.OK(t, stream.Send(m))
	}
	take := func(typeURL string, want ...string) *discoveryv3.DeltaDiscoveryResponse {
		t.Helper()
		m, err := stream.Recv()
		must.OK(t, err)
		if m.GetTypeUrl() != typeURL || !slices.Equal(names(m), want) {
			t.Fatalf("got %s %q, want %s %q", m.GetTypeUrl(), names(m), typeURL, want)
		}
		return m
	}
	ask(&discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: ClusterType, InitialResourceVersions: map[string]string{"gone": "1", ClusterName(0): "1"}})
	m := take(ClusterType, ClusterName(0), ClusterName(1), ClusterName(2))
	if !slices.Equal(m.GetRemovedResources(), []string{"gone"}) {
		t.Errorf("removed %q: a client that held a resource which is gone is told so", m.GetRemovedResources())
	}
	ask(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: EndpointType, ResourceNamesSubscribe: []string{ClusterName(1), "nobody"}})
	m = take(EndpointType, ClusterName(1))
	if !slices.Equal(m.GetRemovedResources(), []string{"nobody"}) {
		t.Errorf("removed %q, want what does not exist", m.GetRemovedResources())
	}
	ask(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: EndpointType, ResponseNonce: m.GetNonce()})
	ask(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: EndpointType, ResourceNamesSubscribe: []string{ClusterName(2)}})
	take(EndpointType, ClusterName(2))

	// Only what is subscribed to is pushed.
	other, err := SyntheticEndpoints(0, 1, "marker")
	must.OK(t, err)
	if p := s.Push(Change{Type: EndpointType, Changed: []Resource{other}}); p.Streams != 0 {
		t.Errorf("a push of what nobody asked for goes to %d streams", p.Streams)
	}
	mine, err := SyntheticEndpoints(1, 1, "marker")
	must.OK(t, err)
	ask(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: EndpointType, ResourceNamesUnsubscribe: []string{ClusterName(2)}})
	begin := time.Now().UnixNano()
	p := s.Push(Change{Type: EndpointType, Changed: []Resource{mine}}, Change{Type: ClusterType, Removed: []string{ClusterName(0)}})
	m = take(EndpointType, ClusterName(1))
	var a endpointv3.ClusterLoadAssignment
	if err := m.GetResources()[0].GetResource().UnmarshalTo(&a); err != nil || !strings.Contains(a.String(), "marker") {
		t.Errorf("pushed %v, %v; want the marker in it", &a, err)
	}
	gone := take(ClusterType)
	if !slices.Equal(gone.GetRemovedResources(), []string{ClusterName(0)}) {
		t.Errorf("removed %q", gone.GetRemovedResources())
	}
	ask(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: EndpointType, ResponseNonce: m.GetNonce()})
	ask(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: ClusterType, ResponseNonce: gone.GetNonce(), ErrorDetail: &statusv3.Status{Code: 13}})
	want := Counts{Streams: 1, Responses: 5, Acks: 2, Nacks: 1}
	eventually.Holds(t, "an acknowledgement and a rejection", func() bool { return s.Counts() == want })
	if p.Streams != 1 {
		t.Errorf("the push went to %d streams, want 1", p.Streams)
	}
	wrote := p.Wrote()
	if at := wrote[node.Id]; len(wrote) != 1 || at < begin || at > time.Now().UnixNano() {
		t.Errorf("wrote at %v since %d: want one time, of %s", wrote, begin, node.Id)
	}
}

func TestStateOfTheWorld(t *testing.T) {
	s, client := serving(t, 2)
	stream, err := client.StreamAggregatedResources(deadline(t))
	must.OK(t, err)
	ask := func(m *discoveryv3.DiscoveryRequest) *discoveryv3.DiscoveryResponse {
		t.Helper()
		if m != nil {
			must.OK(t, stream.Send(m))
		}
		answer, err := stream.Recv()
		must.OK(t, err)
		return answer
	}
	clusters := ask(&discoveryv3.DiscoveryRequest{Node: node, TypeUrl: ClusterType})
	if len(clusters.GetResources()) != 2 {
		t.Fatalf("%d clusters, want 2", len(clusters.GetResources()))
	}
	first := ask(&discoveryv3.DiscoveryRequest{TypeUrl: EndpointType, ResourceNames: []string{ClusterName(0)}})
	both := ask(&discoveryv3.DiscoveryRequest{TypeUrl: EndpointType, ResourceNames: []string{ClusterName(0), ClusterName(1)},
		ResponseNonce: first.GetNonce(), VersionInfo: first.GetVersionInfo()})
	var a endpointv3.ClusterLoadAssignment
	if len(both.GetResources()) != 1 || both.GetResources()[0].UnmarshalTo(&a) != nil || a.GetClusterName() != ClusterName(1) {
		t.Errorf("answer to one more name: %v, want that alone", both.GetResources())
	}
	// Removing one sends all remaining ones.
	s.Push(Change{Type: ClusterType, Removed: []string{ClusterName(1)}})
	if left := ask(nil); left.GetTypeUrl() != ClusterType || len(left.GetResources()) != 1 || left.GetVersionInfo() == clusters.GetVersionInfo() {
		t.Errorf("after a removal: %s with %d resources, version %s", left.GetTypeUrl(), len(left.GetResources()), left.GetVersionInfo())
	}
}

// What a simulated sidecar was sent can be recorded and served again.
func TestRecordedIsServedAgain(t *testing.T) {
	want, err := Synthetic(5, 2)
	must.OK(t, err)
	first := record(t, want)
	got, err := Read(bytes.NewReader(first))
	must.OK(t, err)
	same(t, "recorded", got, want)
	again, err := Read(bytes.NewReader(record(t, got)))
	must.OK(t, err)
	same(t, "recorded from what was recorded", again, want)
}

// record serves a configuration to a simulated sidecar and returns what the
// sidecar holds.
func record(t *testing.T, c Configuration) []byte {
	t.Helper()
	s := New(c)
	spec := xds.DefaultSpec(loopback.Serve(t, s.Serve, s.Close))
	spec.Proxies = []xds.Proxy{{Name: "a", Namespace: "b", IP: "192.0.2.1"}}
	f, err := xds.Start(deadline(t), spec)
	must.OK(t, err)
	defer f.Stop()
	eventually.Holds(t, "it is quiet", func() bool { return f.Status().Quiet(int64(50 * time.Millisecond)) })
	var file bytes.Buffer
	must.OK(t, f.WriteConfiguration(&file, 0, confile.Header{}))
	return file.Bytes()
}

// same compares by meaning, as marshalling maps has no order.
func same(t *testing.T, what string, got, want Configuration) {
	t.Helper()
	for typeURL, resources := range want {
		if len(got[typeURL]) != len(resources) {
			t.Fatalf("%s: %d resources of %s, want %d", what, len(got[typeURL]), typeURL, len(resources))
		}
		for i, r := range resources {
			x, err := got[typeURL][i].Any.UnmarshalNew()
			must.OK(t, err)
			y, err := r.Any.UnmarshalNew()
			must.OK(t, err)
			if got[typeURL][i].Name != r.Name || !proto.Equal(x, y) {
				t.Errorf("%s: %s differs", what, r.Name)
			}
		}
	}
}

func TestSyntheticIsAsLargeAsIstiods(t *testing.T) {
	c, err := Synthetic(100, 2)
	must.OK(t, err)
	// A default istiod sends about this much for a service with two endpoints.
	bounds := map[string][2]int{ClusterType: {700, 2500}, EndpointType: {200, 800}, RouteType: {300, 1500}}
	for typeURL, b := range bounds {
		n := 0
		for _, r := range c[typeURL] {
			n += len(r.Any.GetValue()) / 100
		}
		if n < b[0] || n > b[1] {
			t.Errorf("%d bytes of %s for each service, want %d to %d", n, typeURL, b[0], b[1])
		}
	}
	seen := map[string]bool{}
	for _, r := range c[EndpointType] {
		var a endpointv3.ClusterLoadAssignment
		must.OK(t, r.Any.UnmarshalTo(&a))
		for _, e := range a.GetEndpoints()[0].GetLbEndpoints() {
			address := fmt.Sprint(e.GetEndpoint().GetAddress())
			if seen[address] {
				t.Fatalf("%s is there twice", address)
			}
			seen[address] = true
		}
	}
}
