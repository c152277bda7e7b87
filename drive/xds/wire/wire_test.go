package wire_test

import (
	"errors"
	"hash/maphash"
	"slices"
	"testing"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/drive/xds/wire"
	"github.com/meshtrial/meshtrial/testing/must"
)

func marshal(t interface {
	Helper()
	Fatal(...any)
}, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	must.OK(t, err)
	return b
}

func pack(t testing.TB, m proto.Message) *anypb.Any {
	t.Helper()
	out, err := anypb.New(m)
	must.OK(t, err)
	return out
}

func testCluster(name, service string) *cluster.Cluster {
	return &cluster.Cluster{Name: name, ClusterDiscoveryType: &cluster.Cluster_Type{Type: cluster.Cluster_EDS},
		EdsClusterConfig: &cluster.Cluster_EdsClusterConfig{ServiceName: service}}
}

func testListener(t testing.TB) *listener.Listener {
	discovered := &core.ExtensionConfigSource{ConfigSource: &core.ConfigSource{}}
	manager := func(route string) *listener.Filter {
		return &listener.Filter{Name: "http", ConfigType: &listener.Filter_TypedConfig{TypedConfig: pack(t, &hcm.HttpConnectionManager{
			StatPrefix: "p",
			RouteSpecifier: &hcm.HttpConnectionManager_Rds{Rds: &hcm.Rds{
				ConfigSource: &core.ConfigSource{}, RouteConfigName: route}},
			HttpFilters: []*hcm.HttpFilter{{Name: "wasm", ConfigType: &hcm.HttpFilter_ConfigDiscovery{ConfigDiscovery: discovered}},
				{Name: "plain", ConfigType: &hcm.HttpFilter_TypedConfig{TypedConfig: pack(t, &core.Node{Id: "x"})}}},
		})}}
	}
	return &listener.Listener{
		Name:            "0.0.0.0_80",
		FilterChains:    []*listener.FilterChain{{Filters: []*listener.Filter{manager("80")}}, {Filters: []*listener.Filter{{Name: "tcp"}}}},
		ListenerFilters: []*listener.ListenerFilter{{Name: "inspect", ConfigType: &listener.ListenerFilter_ConfigDiscovery{ConfigDiscovery: discovered}}},
		DefaultFilterChain: &listener.FilterChain{Filters: []*listener.Filter{manager("catch"),
			{Name: "net", ConfigType: &listener.Filter_ConfigDiscovery{ConfigDiscovery: discovered}}}},
	}
}

func text(list [][]byte) []string {
	var out []string
	for _, b := range list {
		out = append(out, string(b))
	}
	return out
}

func TestClusters(t *testing.T) {
	for _, c := range []struct {
		in      *cluster.Cluster
		eds     bool
		service string
	}{
		{testCluster("a", "b"), true, "b"},
		{testCluster("a", ""), true, "a"},
		{&cluster.Cluster{Name: "a", ClusterDiscoveryType: &cluster.Cluster_Type{Type: cluster.Cluster_STRICT_DNS}}, false, "a"},
		{&cluster.Cluster{Name: "a"}, false, "a"},
	} {
		got, err := wire.ParseCluster(marshal(t, c.in))
		if err != nil || string(got.Name) != "a" || got.EDS != c.eds || string(got.ServiceName) != c.service {
			t.Errorf("%v: %+v, %v", c.in, got, err)
		}
	}
}

func TestListeners(t *testing.T) {
	got, err := wire.ParseListener(marshal(t, testListener(t)))
	must.OK(t, err)
	routes, extensions := text(got.Routes), text(got.Extensions)
	slices.Sort(routes)
	slices.Sort(extensions)
	if !slices.Equal(routes, []string{"80", "catch"}) || !slices.Equal(extensions, []string{"inspect", "net", "wasm", "wasm"}) {
		t.Errorf("routes %q, extensions %q", routes, extensions)
	}
}

func deltaResponse(t testing.TB) *discovery.DeltaDiscoveryResponse {
	return &discovery.DeltaDiscoveryResponse{
		SystemVersionInfo: "v1", TypeUrl: wire.ClusterType, Nonce: "n1",
		Resources:        []*discovery.Resource{{Name: "a", Version: "7", Resource: pack(t, testCluster("a", "x"))}, {Name: "b", Resource: pack(t, testCluster("b", ""))}},
		RemovedResources: []string{"c", "d"}, ControlPlane: &core.ControlPlane{Identifier: "i"},
	}
}

func sotwResponse(t testing.TB) *discovery.DiscoveryResponse {
	return &discovery.DiscoveryResponse{VersionInfo: "v2", TypeUrl: wire.ListenerType, Nonce: "n2", Resources: []*anypb.Any{pack(t, testListener(t))}}
}

// response holds the parsed contents of a response.
type response struct {
	wire.Head
	Resources []wire.Resource
	Removed   [][]byte
}

func parse(message []byte, delta bool) (response, error) {
	var r response
	o, err := wire.Skim(message, delta, hash, nil)
	if err != nil {
		return r, err
	}
	r.Head, err = wire.Walk(message, delta, func(raw []byte) error {
		one, err := wire.ParseResource(raw, string(o.TypeURL), delta)
		r.Resources = append(r.Resources, one)
		return err
	}, func(name []byte) error {
		r.Removed = append(r.Removed, name)
		return nil
	})
	return r, err
}

func parseDelta(message []byte) (response, error) { return parse(message, true) }
func parseSotW(message []byte) (response, error)  { return parse(message, false) }

var seed = maphash.MakeSeed()

func hash(b []byte) uint64 { return maphash.Bytes(seed, b) }

func TestResponses(t *testing.T) {
	message := marshal(t, deltaResponse(t))
	r, err := parseDelta(message)
	must.OK(t, err)
	if string(r.TypeURL) != wire.ClusterType || string(r.Nonce) != "n1" || string(r.Version) != "v1" || len(r.Resources) != 2 ||
		!slices.Equal(text(r.Removed), []string{"c", "d"}) {
		t.Errorf("%+v", r)
	}
	a := r.Resources[0]
	if string(a.Name) != "a" || string(a.Version) != "7" || string(a.Body) != string(marshal(t, testCluster("a", "x"))) {
		t.Errorf("%+v", a)
	}
	s, err := parseSotW(marshal(t, sotwResponse(t)))
	if err != nil || len(s.Resources) != 1 || string(s.Resources[0].Name) != "0.0.0.0_80" || string(s.Version) != "v2" || string(s.Nonce) != "n2" {
		t.Errorf("%+v, %v", s, err)
	}
	if none, err := parseDelta(nil); err != nil || none.Nonce != nil || len(none.Resources) != 0 {
		t.Errorf("nothing: %+v, %v", none, err)
	}
}

// TestCutShort checks that a truncated message is an error, or what was
// complete before the cut.
func TestCutShort(t *testing.T) {
	for _, whole := range [][]byte{marshal(t, deltaResponse(t)), marshal(t, sotwResponse(t))} {
		failed := 0
		for n := range whole {
			if _, err := parseDelta(whole[:n]); err != nil {
				failed++
				if !errors.Is(err, wire.ErrMalformed) {
					t.Fatalf("cut at %d: %v", n, err)
				}
			}
		}
		if failed < len(whole)*9/10 {
			t.Errorf("only %d of %d cuts were noticed", failed, len(whole))
		}
	}
}

func TestTooManyResources(t *testing.T) {
	var message []byte
	for range wire.MaxResources + 1 {
		message = append(message, 2<<3|2, 0)
	}
	if _, err := parseDelta(message); !errors.Is(err, wire.ErrMalformed) {
		t.Errorf("%v", err)
	}
	if _, err := parseDelta(message[2:]); err != nil {
		t.Errorf("as many as are allowed: %v", err)
	}
}

func TestRequests(t *testing.T) {
	node := &core.Node{Id: "sidecar~1.2.3.4~a.b~c", Cluster: "a.b"}
	encoded := marshal(t, node)
	request := wire.DeltaRequest{Node: encoded, TypeURL: wire.EndpointType, Subscribe: []string{"a", "b"}, Unsubscribe: []string{"c"}, Nonce: []byte("n"),
		Error: "no", Initial: func(yield func(string, string) bool) { _ = yield("a", "1") && yield("b", "") }}
	var delta discovery.DeltaDiscoveryRequest
	must.OK(t, proto.Unmarshal(request.Append(nil), &delta))
	if delta.TypeUrl != wire.EndpointType || !slices.Equal(delta.ResourceNamesSubscribe, request.Subscribe) ||
		!slices.Equal(delta.ResourceNamesUnsubscribe, request.Unsubscribe) || delta.ResponseNonce != "n" || delta.ErrorDetail.GetMessage() != "no" ||
		delta.ErrorDetail.GetCode() != 13 || len(delta.InitialResourceVersions) != 2 || delta.InitialResourceVersions["a"] != "1" {
		t.Errorf("%v", &delta)
	}
	if !proto.Equal(delta.Node, node) {
		t.Errorf("%v", delta.Node)
	}
	world := wire.SotWRequest{Version: []byte("v"), Node: encoded, TypeURL: wire.RouteType, Names: []string{"80"}, Nonce: []byte("n")}
	var sotw discovery.DiscoveryRequest
	must.OK(t, proto.Unmarshal(world.Append(nil), &sotw))
	if sotw.VersionInfo != "v" || sotw.TypeUrl != wire.RouteType || !slices.Equal(sotw.ResourceNames, world.Names) || sotw.ResponseNonce != "n" ||
		sotw.ErrorDetail != nil || sotw.Node.GetCluster() != "a.b" {
		t.Errorf("%v", &sotw)
	}
}

func TestTypes(t *testing.T) {
	for url, want := range map[string]string{
		wire.ClusterType: "cds", wire.EndpointType: "eds", wire.ListenerType: "lds", wire.RouteType: "rds",
		wire.SecretType: "sds", wire.ExtensionType: "ecds", wire.NameTableType: "nds", "x": "", "": "",
	} {
		if got := wire.ShortName(url); got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
}

// TestOrderDoesNotMatter checks that fields in any order mean the same.
func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z|.]{1,12}`), 1, 20, rapid.ID[string]).Draw(t, "names")
		var parts [][]byte
		one := func(m *discovery.DeltaDiscoveryResponse) {
			parts = append(parts, marshal(t, m))
		}
		for _, n := range names {
			one(&discovery.DeltaDiscoveryResponse{Resources: []*discovery.Resource{{Name: n}}})
		}
		one(&discovery.DeltaDiscoveryResponse{TypeUrl: wire.EndpointType})
		one(&discovery.DeltaDiscoveryResponse{Nonce: "n"})
		one(&discovery.DeltaDiscoveryResponse{RemovedResources: []string{"gone"}})
		shuffled := rapid.Permutation(parts).Draw(t, "order")
		r, err := parseDelta(slices.Concat(shuffled...))
		must.OK(t, err)
		var got []string
		for _, one := range r.Resources {
			got = append(got, string(one.Name))
		}
		slices.Sort(got)
		slices.Sort(names)
		if !slices.Equal(got, names) || string(r.Nonce) != "n" || string(r.TypeURL) != wire.EndpointType || len(r.Removed) != 1 {
			t.Fatalf("%+v", r)
		}
	})
}

// TestOutline checks that the same content in another order, with another nonce
// and version, has the same outline, and anything else another.
func TestOutline(t *testing.T) {
	skim := func(delta bool, m proto.Message) wire.Outline {
		t.Helper()
		o, err := wire.Skim(marshal(t, m), delta, hash, nil)
		must.OK(t, err)
		return o
	}
	same := func(a, b wire.Outline) bool {
		return string(a.TypeURL) == string(b.TypeURL) && a.Resources == b.Resources && a.Removed == b.Removed && a.Size == b.Size && a.Sum == b.Sum
	}
	base := skim(true, deltaResponse(t))
	for name, test := range map[string]struct {
		change func(m *discovery.DeltaDiscoveryResponse)
		same   bool
	}{
		"nothing":              {func(*discovery.DeltaDiscoveryResponse) {}, true},
		"order":                {func(m *discovery.DeltaDiscoveryResponse) { slices.Reverse(m.Resources) }, true},
		"order of removals":    {func(m *discovery.DeltaDiscoveryResponse) { slices.Reverse(m.RemovedResources) }, true},
		"nonce":                {func(m *discovery.DeltaDiscoveryResponse) { m.Nonce = "other" }, true},
		"version":              {func(m *discovery.DeltaDiscoveryResponse) { m.SystemVersionInfo = "v9" }, true},
		"server":               {func(m *discovery.DeltaDiscoveryResponse) { m.ControlPlane = nil }, true},
		"type":                 {func(m *discovery.DeltaDiscoveryResponse) { m.TypeUrl = wire.EndpointType }, false},
		"a resource's name":    {func(m *discovery.DeltaDiscoveryResponse) { m.Resources[0].Name = "c" }, false},
		"a resource's version": {func(m *discovery.DeltaDiscoveryResponse) { m.Resources[0].Version = "8" }, false},
		"a body":               {func(m *discovery.DeltaDiscoveryResponse) { m.Resources[1].Resource = pack(t, testCluster("b", "y")) }, false},
		"bodies change places": {func(m *discovery.DeltaDiscoveryResponse) {
			r := m.Resources
			r[0].Resource, r[1].Resource = r[1].Resource, r[0].Resource
		}, false},
		"one less":               {func(m *discovery.DeltaDiscoveryResponse) { m.Resources = m.Resources[:1] }, false},
		"one twice":              {func(m *discovery.DeltaDiscoveryResponse) { m.Resources = append(m.Resources, m.Resources[0]) }, false},
		"a removal less":         {func(m *discovery.DeltaDiscoveryResponse) { m.RemovedResources = m.RemovedResources[1:] }, false},
		"another removal":        {func(m *discovery.DeltaDiscoveryResponse) { m.RemovedResources[1] = "e" }, false},
		"a removal is a removal": {func(m *discovery.DeltaDiscoveryResponse) { m.RemovedResources[0], m.Resources[0].Name = "a", "c" }, false},
	} {
		m := deltaResponse(t)
		test.change(m)
		got := skim(true, m)
		if same(base, got) != test.same {
			t.Errorf("%s: %+v and %+v", name, base, got)
		}
		for i, sum := range got.Sums {
			if one := skim(true, &discovery.DeltaDiscoveryResponse{Resources: m.Resources[i : i+1]}); len(one.Sums) != 1 || one.Sums[0] != sum {
				t.Errorf("%s: resource %d has another hash when it is alone", name, i)
			}
		}
		if len(got.Sums) != len(m.Resources) {
			t.Errorf("%s: %d hashes of %d resources", name, len(got.Sums), len(m.Resources))
		}
		if string(got.Nonce) != m.Nonce || string(got.Version) != m.SystemVersionInfo {
			t.Errorf("%s: nonce %q, version %q", name, got.Nonce, got.Version)
		}
	}
	// In state-of-the-world mode, field 6 is not a removal.
	world := sotwResponse(t)
	plain := skim(false, world)
	world.ControlPlane = &core.ControlPlane{Identifier: "i"}
	if got := skim(false, world); !same(plain, got) || got.Removed != 0 || got.Resources != 1 {
		t.Errorf("%+v and %+v", plain, got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(marshal(f, deltaResponse(f)))
	f.Add(marshal(f, sotwResponse(f)))
	f.Add(marshal(f, testListener(f)))
	f.Add(marshal(f, testCluster("a", "b")))
	f.Add([]byte{2<<3 | 2, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Add([]byte{5 << 3, 1})
	f.Add([]byte{1<<3 | 3, 1<<3 | 3, 1<<3 | 4})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, parse := range []func([]byte) (response, error){parseDelta, parseSotW} {
			r, err := parse(b)
			if err != nil && !errors.Is(err, wire.ErrMalformed) {
				t.Errorf("%v", err)
			}
			size := 0
			for _, one := range r.Resources {
				size += len(one.Name) + len(one.Version)
			}
			if size > 2*len(b) {
				t.Errorf("%d bytes of names from %d", size, len(b))
			}
		}
		if _, err := wire.ParseListener(b); err != nil && !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("%v", err)
		}
		if _, err := wire.ParseCluster(b); err != nil && !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("%v", err)
		}
	})
}
