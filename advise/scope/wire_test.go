package scope

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/streamtest"
)

// wireResources returns the resources of a recorded dump as istiod sent them.
func wireResources(t testing.TB, name string) (urls, names []string, bodies [][]byte, dumpBytes []int) {
	t.Helper()
	var document struct {
		Configs []map[string]json.RawMessage `json:"configs"`
	}
	must.OK(t, json.Unmarshal(recorded(t, name), &document))
	for _, section := range document.Configs {
		for member, raw := range section {
			if !strings.HasPrefix(member, "dynamic_") {
				continue
			}
			var entries []json.RawMessage
			must.OK(t, json.Unmarshal(raw, &entries))
			for _, entry := range entries {
				for _, typ := range []string{TypeCluster, TypeEndpoint, TypeRoute, TypeListener} {
					r, ok := inside(typ, jsonNode(entry)).(jsonNode)
					if !ok || len(r) == len(entry) {
						continue
					}
					url := r.get("@type").text()
					var inner map[string]json.RawMessage
					must.OK(t, json.Unmarshal(r, &inner))
					delete(inner, "@type")
					plain, _ := json.Marshal(inner)
					m := wireTypes[url[strings.LastIndexByte(url, '/')+1:]].make()
					known := &lenient{}
					if err := (protojson.UnmarshalOptions{Resolver: known, DiscardUnknown: true}).Unmarshal(plain, m); err != nil {
						t.Fatalf("%s: %v", url, err)
					}
					body, err := proto.Marshal(m)
					must.OK(t, err)
					urls, names, bodies = append(urls, url), append(names, r.get("name").text()), append(bodies, body)
					size := len(r)
					if known.missed {
						size = -1
					}
					dumpBytes = append(dumpBytes, size)
				}
			}
		}
	}
	return urls, names, bodies, dumpBytes
}

// Resources on the wire have the owners that the dump of the same proxy shows, and their
// JSON size is the one in the dump.
func TestWireAndDumpAgree(t *testing.T) {
	for _, name := range []string{"sidecar", "gateway"} {
		urls, names, bodies, dumpBytes := wireResources(t, name)
		if len(urls) < 40 {
			t.Fatalf("%s: %d resources", name, len(urls))
		}
		scan, compared := NewScanner(0), 0
		wire := int64(0)
		for i := range urls {
			before := scan.total
			must.OK(t, scan.Add(urls[i], names[i], bodies[i]))
			wire += int64(len(bodies[i]))
			if got := int(scan.total.dump - before.dump); dumpBytes[i] > 0 {
				compared++
				// The dump names the packed type on an additional line.
				if want := dumpBytes[i]; got > want || got < want*94/100-100 {
					t.Errorf("%s %s: %d bytes as JSON, the dump has %d", urls[i], names[i], got, want)
				}
			}
		}
		if compared < 15 {
			t.Errorf("%s: only %d resources compared", name, compared)
		}
		p := scan.Proxy(name)
		checkSums(t, p)
		if p.WireBytes != wire || p.DumpBytes <= p.WireBytes {
			t.Errorf("%s: %d bytes on the wire, want %d; %d as JSON", name, p.WireBytes, wire, p.DumpBytes)
		}
		got := owned(p)
		for _, o := range read(t, name).Owners {
			switch o.Owner.Kind {
			case KindDump, KindMesh, "Secret": // the frame, the bootstrap and secrets are not resources here
				continue
			}
			if g := got[o.Owner]; g.WireBytes == 0 || g.DumpBytes == 0 {
				t.Errorf("%s: %s has %d bytes in the dump, %+v from the wire", name, o.Owner, o.DumpBytes, g)
			}
		}
	}
}

func TestAdd(t *testing.T) {
	s := NewScanner(0)
	if err := s.Add("type.googleapis.com/envoy.config.cluster.v3.Cluster", "broken", []byte{0x0a, 0xff}); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("%v", err)
	}
	if s.total.resources != 0 {
		t.Error("a broken resource was counted")
	}
	// A name table is divided by host.
	entry := func(host string) []byte {
		inner := append([]byte{0x0a, byte(len(host))}, host...)
		inner = append(inner, 0x12, 0x02, 0x0a, 0x00)
		return append([]byte{0x0a, byte(len(inner))}, inner...)
	}
	table := append(entry("a.b.svc.cluster.local"), entry("c.com")...)
	must.OK(t, s.Add("type.googleapis.com/istio.networking.nds.v1.NameTable", "", table))
	if err := s.Add("type.googleapis.com/istio.networking.nds.v1.NameTable", "", table[:9]); err == nil {
		t.Error("a cut name table was taken")
	}
	must.OK(t, s.Add("type.googleapis.com/some.Thing", "thing", []byte("abc")))
	p := s.Proxy("x")
	checkSums(t, p)
	var got strings.Builder
	for _, o := range p.Owners {
		fmt.Fprintf(&got, "%s %d; ", o.Owner, o.WireBytes)
	}
	if want := "Service b/a 29; host c.com 13; unattributed type some.Thing 3; mesh defaults 0; "; got.String() != want {
		t.Errorf("%s", got.String())
	}
}

// Clusters that a proxy resolves itself are counted in both forms.
func TestDNSClusters(t *testing.T) {
	s := NewScanner(0)
	for _, kind := range []clusterv3.Cluster_DiscoveryType{clusterv3.Cluster_STATIC, clusterv3.Cluster_STRICT_DNS,
		clusterv3.Cluster_EDS, clusterv3.Cluster_LOGICAL_DNS, clusterv3.Cluster_ORIGINAL_DST} {
		body, err := proto.Marshal(&clusterv3.Cluster{Name: "c", ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: kind}})
		err = cmp.Or(err, s.Add("x/envoy.config.cluster.v3.Cluster", "c", body))
		must.OK(t, err)
	}
	dump := `{"configs":[{"@type":"x/envoy.admin.v3.ClustersConfigDump","dynamic_active_clusters":[{"cluster":{"name":"c","type":"STRICT_DNS"}},{"cluster":{"name":"d","type":"EDS"}}]}]}`
	read, err := ReadDump(strings.NewReader(dump), "x", Options{})
	if n := s.Proxy("x").DNS; n != 2 || read.DNS != 1 || err != nil {
		t.Errorf("%d as protobuf, %d in a dump, %v", n, read.DNS, err)
	}
}

// Endlessly nested packed messages are unattributed and not unpacked: each level would be
// parsed again.
func TestAddNested(t *testing.T) {
	cluster := func(levels int) []byte {
		packed, err := anypb.New(&clusterv3.Cluster{Name: "inmost"})
		for range levels {
			if err == nil {
				packed, err = anypb.New(&corev3.TypedExtensionConfig{TypedConfig: packed})
			}
		}
		must.OK(t, err)
		body, err := proto.Marshal(&clusterv3.Cluster{Name: "a", TypedExtensionProtocolOptions: map[string]*anypb.Any{"x": packed}})
		must.OK(t, err)
		return body
	}
	for levels, opaque := range map[int]bool{0: false, 10: false, 200: true} {
		s := NewScanner(0)
		must.OK(t, s.Add("type.googleapis.com/envoy.config.cluster.v3.Cluster", "a", cluster(levels)))
		p := s.Proxy("x")
		checkSums(t, p)
		got := slices.ContainsFunc(p.Owners, func(o OwnerSize) bool {
			return o.WireBytes > 0 && strings.Contains(o.Owner.String(), "envoy.config.cluster.v3.Cluster")
		})
		if got != opaque {
			t.Errorf("%d levels: %+v", levels, p.Owners)
		}
	}
}

// Whatever a dump consists of, every byte is counted once.
func TestSumsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		host := rapid.SampledFrom([]string{"a.x.svc.cluster.local", "b.x.svc.cluster.local", "c.com", "*.d.org", "", "[::1]", "\\u00e9|"})
		cluster := func(label string) string {
			return rapid.SampledFrom([]string{"outbound|80||%s", "outbound|80|v1|%s", "outbound_.80_._.%s", "inbound|80||", "PassthroughCluster", "other%.0s"}).Draw(t, label)
		}
		named := func(label string) string {
			f := cluster(label)
			if strings.Contains(f, "%") {
				f = fmt.Sprintf(f, host.Draw(t, label+" host"))
			}
			return f
		}
		meta := func(label string) string {
			return rapid.SampledFrom([]string{``, `,"metadata":{"filter_metadata":{"istio":{"config":"/apis/networking.istio.io/v1/namespaces/x/virtual-service/v"}}}`,
				`,"metadata":{"filter_metadata":{"istio":{"subset":"v1","services":[{"host":"a.x.svc.cluster.local","name":"a","namespace":"x"}],"config":"/apis/networking.istio.io/v1/namespaces/x/destination-rule/d"}}}`,
				`,"metadata":[]`, ` , "metadata" : { "filter_metadata" : null } `}).Draw(t, label)
		}
		routes := func() string {
			var vhs []string
			for i := range rapid.IntRange(0, 3).Draw(t, "virtual hosts") {
				var rs []string
				for range rapid.IntRange(0, 3).Draw(t, "routes") {
					rs = append(rs, `{"route":{"cluster":"`+named("to")+`"}`+meta("route")+`}`)
				}
				vhs = append(vhs, fmt.Sprintf(`{"name":"%s:8%d","routes":[%s]}`, host.Draw(t, "vh"), i, strings.Join(rs, " ,\n")))
			}
			return `{"name":"` + rapid.SampledFrom([]string{"80", "https.443.p.g.n", ""}).Draw(t, "rc") + `","virtual_hosts":[` + strings.Join(vhs, ",") + `]}`
		}
		chain := func() string {
			return rapid.SampledFrom([]string{
				`{"filters":[{"typed_config":{"cluster":"` + named("tcp") + `"}}]` + meta("chain") + `}`,
				`{"filters":[{"typed_config":{"rds":{"route_config_name":"80"},"http_filters":[{"name":"lua"},{"name":"envoy.filters.http.rbac","typed_config":{"rules":{"policies":{"ns[a]-policy[b]-rule[0]":{"x":1},"z":{}}}}}]}}]}`,
				`{"filters":[{"typed_config":{"route_config":` + routes() + `}}]}`, `{}`, `7`}).Draw(t, "chain")
		}
		var configs []string
		for range rapid.IntRange(1, 5).Draw(t, "sections") {
			configs = append(configs, rapid.SampledFrom([]string{
				`{"@type":"t/envoy.admin.v3.BootstrapConfigDump","bootstrap":{"a":[1,2]},"last_updated":"x"}`,
				`{"@type":"t/envoy.admin.v3.ClustersConfigDump","static_clusters":[{"cluster":{"name":"agent"}}],"dynamic_active_clusters":[{"cluster":{"name":"` + named("c") + `"` + meta("cluster") + `}},{}]}`,
				`{"@type":"t/envoy.admin.v3.EndpointsConfigDump", "dynamic_endpoint_configs" : [ {"endpoint_config":{"cluster_name":"` + named("e") + `"}} ] }`,
				`{"@type":"t/envoy.admin.v3.ListenersConfigDump","dynamic_listeners":[{"name":"l","active_state":{"listener":{"name":"l","filter_chains":[` + chain() + `,` + chain() + `],"default_filter_chain":` + chain() + `}}}]}`,
				`{"@type":"t/envoy.admin.v3.RoutesConfigDump","static_route_configs":[{"route_config":` + routes() + `}],"dynamic_route_configs":[{"route_config":` + routes() + `}]}`,
				`{"@type":"t/envoy.admin.v3.SecretsConfigDump","dynamic_active_secrets":[{"name":"default"},{"name":"kubernetes://a/b"},{"name":"c"}]}`,
			}).Draw(t, "section"))
		}
		text := `{"configs":[` + strings.Join(configs, ",\n") + `]}`
		p, err := ReadDump(strings.NewReader(text), "x", Options{})
		if err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		checkSums(t, p)
		if p.DumpBytes != int64(len(text)) {
			t.Errorf("%d of %d bytes in %s", p.DumpBytes, len(text), text)
		}
	})
}

func FuzzReadDump(f *testing.F) {
	whole := recorded(f, "gateway")
	at := bytes.Index(whole, []byte(`"@type": "type.googleapis.com/envoy.admin.v3.RoutesConfigDump"`))
	if at < 0 {
		f.Fatal("the recorded dump has no routes")
	}
	f.Add(append([]byte(`{"configs":[{`), whole[at:]...))
	f.Add([]byte(`{"configs":[{"@type":"t/envoy.admin.v3.ListenersConfigDump","dynamic_listeners":[{"active_state":{"listener":{"filter_chains":[{"filters":[{"typed_config":{"http_filters":[{"name":"a\"b"}]}}]}]}}}]}]}`))
	f.Add([]byte(`{"configs":[{"@type":"t/envoy.admin.v3.EcdsConfigDump","ecds_filters":[{"ecds_filter":{"name":"extensions.istio.io/wasmplugin/a.b"}}]}]}`))
	f.Add([]byte(`{"workloads":[{"name":"a","uid":"c//Pod/b/a","workloadType":"pod"}],"services":{"x":{"hostname":"a.b.svc.c","name":"a","namespace":"b"}},"policies":[{"name":"converted_peer_authentication_a"}],"certificates":[{"identity":"spiffe://a/ns/b/sa/c"}],"stagedServices":{"b/a":{}},"version":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ReadDump(bytes.NewReader(data), "x", Options{MaxResource: 1 << 20})
		checkSums(t, p)
		if (err != nil) != p.Incomplete {
			t.Errorf("incomplete %v: %v", p.Incomplete, err)
		}
		if err == nil && p.DumpBytes != int64(len(data)) {
			t.Errorf("%d of %d bytes", p.DumpBytes, len(data))
		}
	})
}

func FuzzAdd(f *testing.F) {
	urls, _, bodies, _ := wireResources(f, "gateway")
	for i := range urls {
		if i%8 == 0 {
			f.Add(urls[i], bodies[i])
		}
	}
	f.Add("istio.networking.nds.v1.NameTable", []byte{0x0a, 3, 0x0a, 1, 'a'})
	f.Fuzz(func(t *testing.T, url string, body []byte) {
		s := NewScanner(0)
		err := s.Add(url, "x", body)
		p := s.Proxy("x")
		checkSums(t, p)
		if want := int64(len(body)); err == nil && p.WireBytes != want || err != nil && p.WireBytes != 0 {
			t.Errorf("%d of %d bytes: %v", p.WireBytes, want, err)
		}
	})
}

func FuzzReadCounts(f *testing.F) {
	f.Add([]byte(`{"cluster_statuses":[{"name":"a","host_statuses":[{"stats":[{"name":"rq_total","value":"5"}]}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		counts, err := ReadCounts(bytes.NewReader(data))
		if (err == nil) != (counts.Calls != nil) {
			t.Errorf("%v, %v", counts, err)
		}
	})
}

// longDump generates a dump of that many clusters of 20 kB, and calls made before each.
func longDump(clusters int, made func(i int)) io.Reader {
	filler := strings.Repeat("x", 20_000)
	return streamtest.Parts(clusters+2, func(i int) string {
		switch i {
		case 0:
			return `{"configs":[{"@type":"t/envoy.admin.v3.ClustersConfigDump","dynamic_active_clusters":[{}`
		case clusters + 1:
			return `]}]}`
		}
		made(i)
		host := fmt.Sprintf("svc-%d.ns-%d.svc.cluster.local", i, i%50)
		return fmt.Sprintf(`,{"version_info":"1","cluster":{"name":"outbound|80||%s","filler":"%s","metadata":{"filter_metadata":{"istio":{"services":[{"host":%[1]q,"name":"svc-%[3]d","namespace":"ns-%[4]d"}]}}}}}`,
			host, filler, i, i%50)
	})
}

// Memory for a dump of 500 MB depends on its names, not on its size.
func TestHugeDump(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 500 MB")
	}
	peak := uint64(0)
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const clusters = 26_000
	dump := &countingReader{r: longDump(clusters, func(i int) {
		if i%100 == 0 {
			runtime.ReadMemStats(&now)
			peak = max(peak, now.HeapAlloc)
		}
	})}
	p, err := ReadDump(dump, "huge", Options{})
	must.OK(t, err)
	checkSums(t, p)
	if p.DumpBytes != int64(dump.read) || p.Resources != clusters+1 || p.DumpBytes < 500<<20 {
		t.Errorf("%d of %d bytes, %d of %d resources", p.DumpBytes, dump.read, p.Resources, clusters+1)
	}
	const bound = 64 << 20
	if peak == 0 || peak > before.HeapAlloc+bound {
		t.Errorf("heap of %d MB over %d MB before, the bound is %d MB more", peak>>20, before.HeapAlloc>>20, bound>>20)
	}
	t.Logf("%d resources, heap at most %d MB", p.Resources, peak>>20)
	// Truncated at any length, it fails.
	whole := longDump(1000, func(int) {})
	if _, err := ReadDump(io.LimitReader(whole, 10<<20), "cut", Options{}); !errors.Is(err, ErrCut) {
		t.Errorf("%v", err)
	}
}
