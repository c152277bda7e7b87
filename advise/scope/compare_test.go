package scope

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshtrial/meshtrial/internal/confile"
	"github.com/meshtrial/meshtrial/testing/must"
)

type oneResource struct {
	name string
	body proto.Message
}

// recordingOf returns a recording of resources.
func recordingOf(t testing.TB, version string, all ...oneResource) *bytes.Reader {
	t.Helper()
	var out bytes.Buffer
	w, err := confile.NewWriter(&out, confile.Header{Proxy: "bar." + version, Type: "sidecar"})
	must.OK(t, err)
	for _, one := range all {
		body, err := proto.Marshal(one.body)
		must.OK(t, err)
		must.OK(t, w.Write(confile.Resource{TypeURL: "type.googleapis.com/" + string(one.body.ProtoReflect().Descriptor().FullName()), Name: one.name, Version: version, Body: body}))
	}
	return bytes.NewReader(out.Bytes())
}

func clusterOf(name string, policy clusterv3.Cluster_LbPolicy) oneResource {
	return oneResource{name, &clusterv3.Cluster{Name: name, LbPolicy: policy}}
}

func routeOf(domains ...string) oneResource {
	return oneResource{"80", &routev3.RouteConfiguration{Name: "80", VirtualHosts: []*routev3.VirtualHost{{Name: "bar", Domains: domains}}}}
}

func listenerOf(filters ...*listenerv3.Filter) oneResource {
	return oneResource{"in", &listenerv3.Listener{Name: "in", FilterChains: []*listenerv3.FilterChain{{Filters: filters}}}}
}

func filterOf(name, typ, body string) *listenerv3.Filter {
	return &listenerv3.Filter{Name: name, ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: &anypb.Any{TypeUrl: "type.googleapis.com/" + typ, Value: []byte(body)}}}
}

// Two recordings of a proxy differ where the contents of resources do: not in versions, and not in
// the order of domains. The same difference of several resources is one line.
func TestCompare(t *testing.T) {
	const lb = clusterv3.Cluster_LEAST_REQUEST
	a, b := filterOf("envoy.filters.network.tcp_proxy", "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy", ""), filterOf("istio.stats", "stats.PluginConfig", "\n\x01x")
	for name, tt := range map[string]struct {
		first, second []oneResource
		want          []Difference
		differing     int
	}{
		"the same": {[]oneResource{clusterOf("a", lb), routeOf("x", "y")}, []oneResource{routeOf("y", "x"), clusterOf("a", lb)}, nil, 0},
		"a field of two": {[]oneResource{clusterOf("a", lb), clusterOf("b", lb)}, []oneResource{clusterOf("a", 0), clusterOf("b", 0)},
			[]Difference{{Type: TypeCluster, Path: "lb_policy", First: `"LEAST_REQUEST"`, Resources: 2, Example: "a"}}, 2},
		"one more": {[]oneResource{clusterOf("a", lb)}, []oneResource{clusterOf("a", lb), clusterOf("b", lb)},
			[]Difference{{Type: TypeCluster, Second: "present", Resources: 1, Example: "b"}}, 1},
		"one of each": {[]oneResource{clusterOf("a", lb), clusterOf("b", lb)}, []oneResource{clusterOf("b", lb), clusterOf("c", lb), clusterOf("d", lb)},
			[]Difference{{Type: TypeCluster, Second: "present", Resources: 2, Example: "c"}, {Type: TypeCluster, First: "present", Resources: 1, Example: "a"}}, 3},
		"a field of either": {[]oneResource{clusterOf("a", lb), clusterOf("b", 0)}, []oneResource{clusterOf("a", 0), clusterOf("b", lb)},
			[]Difference{{Type: TypeCluster, Path: "lb_policy", First: `"LEAST_REQUEST"`, Resources: 1, Example: "a"}, {Type: TypeCluster, Path: "lb_policy", Second: `"LEAST_REQUEST"`, Resources: 1, Example: "b"}}, 2},
		"one fewer":              {[]oneResource{clusterOf("a", lb)}, nil, []Difference{{Type: TypeCluster, First: "present", Resources: 1, Example: "a"}}, 1},
		"a domain":               {[]oneResource{routeOf("x")}, []oneResource{routeOf("x", "z")}, []Difference{{Type: TypeRoute, Path: "virtual_hosts[].domains[]", Second: `"z"`, Resources: 1, Example: "80"}}, 1},
		"a domain before others": {[]oneResource{routeOf("b", "c", "d")}, []oneResource{routeOf("a", "b", "c", "d")}, []Difference{{Type: TypeRoute, Path: "virtual_hosts[].domains[]", Second: `"a"`, Resources: 1, Example: "80"}}, 1},
		"another domain":         {[]oneResource{routeOf("d", "c", "b")}, []oneResource{routeOf("a", "b", "c")}, []Difference{{Type: TypeRoute, Path: "virtual_hosts[].domains[]", First: `"d"`, Second: `"a"`, Resources: 1, Example: "80"}}, 1},
		"a filter": {[]oneResource{listenerOf(a)}, []oneResource{listenerOf(a, b)},
			[]Difference{{Type: TypeListener, Path: "filter_chains[].filters[istio.stats]", Second: `{"name":"istio.stats","typed_config":{"@type":"type.googleapis.com/stats.PluginConfig"}}`, Resources: 1, Example: "in"}}, 1},
		"the order of filters": {[]oneResource{listenerOf(a, b)}, []oneResource{listenerOf(b, a)},
			[]Difference{{Type: TypeListener, Path: "filter_chains[].filters (order)", First: `["envoy.filters.network.tcp_proxy","istio.stats"]`, Second: `["istio.stats","envoy.filters.network.tcp_proxy"]`, Resources: 1, Example: "in"}}, 1},
		"in an unknown type": {[]oneResource{listenerOf(b)}, []oneResource{listenerOf(filterOf("istio.stats", "stats.PluginConfig", "\n\x05other"))},
			[]Difference{{Type: TypeListener, Path: undecoded, First: "68 bytes", Second: "72 bytes", Resources: 1, Example: "in"}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Compare(recordingOf(t, "1", tt.first...), recordingOf(t, "2", tt.second...))
			if err != nil || !slices.Equal(got.Differences, tt.want) || got.Differing != tt.differing {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	if _, err := Compare(strings.NewReader("{}"), recordingOf(t, "1")); err == nil {
		t.Error("what is not a recording is compared")
	}
}

// FuzzCompare verifies that a recording does not differ from itself, and that two differ in as many
// resources in either order.
func FuzzCompare(f *testing.F) {
	sidecar, _ := sent(f, "sidecar", confile.Header{Proxy: "a.shop", Type: "sidecar"})
	gateway, _ := sent(f, "gateway", confile.Header{Proxy: "a.shop", Type: "router"})
	f.Add(sidecar, gateway)
	f.Add(sidecar, sidecar[:len(sidecar)/2])
	f.Fuzz(func(t *testing.T, a, b []byte) {
		compare := func(x, y []byte) (Compared, error) { return Compare(bytes.NewReader(x), bytes.NewReader(y)) }
		if same, err := compare(a, a); err == nil && same.Differing+len(same.Differences) > 0 {
			t.Errorf("from itself: %+v", same)
		}
		one, err := compare(a, b)
		other, otherErr := compare(b, a)
		if (err == nil) != (otherErr == nil) || err == nil && (one.Differing != other.Differing || one.Resources != other.Resources) {
			t.Errorf("%+v, %v, reversed %+v, %v", one, err, other, otherErr)
		}
	})
}

// The order of fields, at any depth, makes no difference between messages that are not decoded.
func TestCompareOpaque(t *testing.T) {
	key := resourceKey{typ: "istio.workload.Address"}
	number := func(n protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(nil, n, protowire.VarintType), v)
	}
	text := func(n protowire.Number, v []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), v)
	}
	of := func(parts ...[]byte) []byte { return text(2, slices.Concat(parts...)) }
	first := of(text(1, []byte("bar")), number(3, 15008), number(4, 1), number(4, 2))
	for name, tt := range map[string]struct {
		second []byte
		same   bool
	}{
		"another order":              {of(number(3, 15008), number(4, 1), number(4, 2), text(1, []byte("bar"))), true},
		"another value":              {of(number(3, 15009), number(4, 1), number(4, 2), text(1, []byte("bar"))), false},
		"another order of one field": {of(text(1, []byte("bar")), number(3, 15008), number(4, 2), number(4, 1)), false},
		"a field less":               {of(text(1, []byte("bar")), number(3, 15008), number(4, 1)), false},
		"no message":                 {[]byte{0xff}, false},
	} {
		if got, err := compareResource(key, first, tt.second); err != nil || (len(got) == 0) != tt.same {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
