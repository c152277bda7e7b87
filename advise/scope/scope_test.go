package scope

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/golden"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/streamtest"
)

// recorded returns a dump recorded from a proxy in a lab, with only addresses
// and certificates replaced.
func recorded(t testing.TB, name string) []byte {
	t.Helper()
	f, err := os.Open("testdata/" + name + ".json.gz")
	must.OK(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	must.OK(t, err)
	data, err := io.ReadAll(z)
	must.OK(t, err)
	return data
}

func read(t testing.TB, name string) Proxy {
	t.Helper()
	p, err := ReadDump(bytes.NewReader(recorded(t, name)), name, Options{})
	must.OK(t, err)
	return p
}

// owned returns what owners have, by owner.
func owned(p Proxy) map[Owner]OwnerSize {
	out := map[Owner]OwnerSize{}
	for _, o := range p.Owners {
		out[o.Owner] = o
	}
	return out
}

// checkSums checks the promise of the package: all bytes, each once.
func checkSums(t interface {
	Helper()
	Errorf(string, ...any)
}, p Proxy) {
	t.Helper()
	var types, owners sizes
	resources, owned := 0, 0
	for _, s := range p.Types {
		types.dump, types.wire, resources = types.dump+s.DumpBytes, types.wire+s.WireBytes, resources+s.Resources
	}
	for _, o := range p.Owners {
		owners.dump, owners.wire = owners.dump+o.DumpBytes, owners.wire+o.WireBytes
		owned += o.Resources
		if o.DumpBytes < 0 || o.WireBytes < 0 {
			t.Errorf("%s has %d and %d bytes", o.Owner, o.DumpBytes, o.WireBytes)
		}
	}
	if want := (sizes{dump: p.DumpBytes, wire: p.WireBytes}); types != want || owners != want || resources != p.Resources || owned != p.Resources {
		t.Errorf("total %+v of %d resources, by type %+v of %d, by owner %+v of %d", want, p.Resources, types, resources, owners, owned)
	}
}

func TestRecordedDumps(t *testing.T) {
	for _, name := range []string{"sidecar", "gateway"} {
		p := read(t, name)
		checkSums(t, p)
		if want := int64(len(recorded(t, name))); p.DumpBytes != want || p.Incomplete {
			t.Errorf("%s: %d bytes of %d, incomplete %v", name, p.DumpBytes, want, p.Incomplete)
		}
		var got strings.Builder
		for _, s := range p.Types {
			fmt.Fprintf(&got, "%-10s %4d %7d %7d\n", s.Type, s.Resources, s.DumpBytes, s.StaticBytes)
		}
		got.WriteString("\n")
		for _, o := range p.Owners {
			fmt.Fprintf(&got, "%-60s %4d %7d %7d\n", o.Owner, o.Resources, o.DumpBytes, o.ShapedBytes)
		}
		got.WriteString("\n")
		for _, r := range p.Largest {
			fmt.Fprintf(&got, "%-4s %-60s %7d %s\n", r.Type, r.Name, r.DumpBytes, r.Owner)
		}
		golden.File(t, "testdata/"+name+".golden", []byte(got.String()))
	}
}

// The owners of the lab's configuration are found, from what the resources say
// about them.
func TestOwnersOfTheLab(t *testing.T) {
	owners := owned(read(t, "sidecar"))
	shop := func(kind, name string) OwnerSize { return owners[Owner{kind, "shop", name}] }
	if o := shop("VirtualService", "catalog-routes"); o.Resources != 0 || o.DumpBytes == 0 {
		t.Errorf("two routes of one route configuration: %+v", o)
	}
	if o := shop("VirtualService", "payments-tls"); o.Resources != 1 {
		t.Errorf("a filter chain: %+v", o)
	}
	if o := shop("DestinationRule", "catalog-subsets"); o.Resources != 8 || o.ShapedBytes == 0 {
		t.Errorf("four subsets and their endpoints, and the clusters it shapes: %+v", o)
	}
	if o := shop("AuthorizationPolicy", "only-get"); o.Resources != 0 || o.DumpBytes == 0 {
		t.Errorf("policies inside of virtualInbound: %+v", o)
	}
	if o := shop("ServiceEntry", "payments.example.com"); o.Resources != 4 || o.DumpBytes < 5000 {
		t.Errorf("clusters, endpoints, and a virtual host: %+v", o)
	}
	for _, o := range []Owner{{KindUnattributed, "", "HTTP filter shop.lua"}, {KindUnattributed, "", "cluster custom_cluster"}, {KindShared, "", "routes 80"}, bootstrap, defaults, certificates, frame} {
		if owners[o].DumpBytes == 0 {
			t.Errorf("%s has nothing", o)
		}
	}
	// The only service on these ports is istiod, so it owns their listeners.
	for o := range owners {
		if o.Kind == KindShared && o.Name != "routes 80" {
			t.Errorf("%s is shared by nobody", o)
		}
	}
	edge := read(t, "gateway")
	if !has(edge, Owner{"VirtualService", "shop", "front-routes"}) || !has(edge, Owner{"Gateway", "shop", "front"}) {
		t.Errorf("gateway: %v", edge.Owners)
	}
}

func TestNamesOfOwners(t *testing.T) {
	for path, want := range map[string]Owner{
		"/apis/networking.istio.io/v1/namespaces/a/virtual-service/b":    {"VirtualService", "a", "b"},
		"/apis/networking.istio.io/v1/namespaces/a/sidecar/b":            {"Sidecar", "a", "b"},
		"/apis/gateway.networking.k8s.io/v1/namespaces/a/http-route/b.c": {"HttpRoute", "a", "b.c"},
		"/apis/x/v1/namespaces/a//b":                                     {},
		"/apis/x/v1/namespaces/a/k/b/c":                                  {},
		"/apis/x/v1/namespaces/a/-/b":                                    {},
		"":                                                               {},
	} {
		if got, ok := configOwner(path); got != want || ok != (want != Owner{}) {
			t.Errorf("%q: %v %v", path, got, ok)
		}
	}
	for name, want := range map[string]Owner{
		"ns[a]-policy[b]-rule[0]":                              {"AuthorizationPolicy", "a", "b"},
		"istio-ext-authz-oauth-ns[a]-policy[b.c]-rule[10]":     {"AuthorizationPolicy", "a", "b.c"},
		"istio-ext-authz-oauth-ns[]-policy[b]-rule[0]":         {},
		"default-deny-all-due-to-bad-CUSTOM-action-ns[a]-rule": {},
	} {
		if got, _ := policyOwner(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
	for name, want := range map[string]Owner{
		"extenstions.istio.io/wasmplugin/a.b.c":     {"WasmPlugin", "a", "b.c"},
		"extensions.istio.io/trafficextension/a.b":  {"TrafficExtension", "a", "b"},
		"extensions.istio.io/somethingelse/a.b":     {},
		"extensions.istio.io/trafficextension/a":    {"TrafficExtension", "", "a"},
		"extenstions.istio.io/wasmplugin/a":         {"WasmPlugin", "", "a"},
		"extenstions.istio.io/wasmplugin/":          {},
		"extenstions.istio.io/wasmplugin/.a":        {},
		"elsewhere.istio.io/trafficextension/a.b/c": {},
	} {
		if got, _ := extensionOwner(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
	for route, want := range map[string]Owner{"https.443.https.gw.ns": {"Gateway", "ns", "gw"}, "http.80": {}, "https.443.https.gw.dotted.ns": {}, "80": {}} {
		if got, _ := gatewayOwner(route); got != want {
			t.Errorf("%q: %v", route, got)
		}
	}
	for host, want := range map[string]Owner{"a.b.svc.cluster.local": {"Service", "b", "a"}, "a.b.svc": {KindHost, "", "a.b.svc"}, "a.com": {KindHost, "", "a.com"}} {
		if got := hostOwner(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
	for name, want := range map[string][2]string{"a:80": {"a", "80"}, "[::1]:80": {"::1", "80"}, "a": {"a", ""}, "a:b": {"a:b", ""}} {
		if host, port := splitHostPort(name); host != want[0] || port != want[1] {
			t.Errorf("%q: %q %q", name, host, port)
		}
	}
	if (Owner{"Service", "a", "b"}).String() != "Service a/b" || bootstrap.String() != "mesh bootstrap" || (Owner{Kind: "x"}).String() != "x" {
		t.Error("how owners are written")
	}
}

func TestWhatIsNoDump(t *testing.T) {
	whole := recorded(t, "sidecar")
	for name, c := range map[string]struct {
		text, want string
		offset     int64
	}{
		"empty":           {"", "it is empty", 0},
		"no JSON":         {"<html>", "invalid character '<'", 0},
		"a list":          {"[]", "the document is no object", -1},
		"another thing":   {`{"stats":[{"a":[1,{}]}]}`, `it has no "configs"`, -1},
		"no sections":     {`{"configs":[]}`, `it has no "configs"`, -1},
		"wrong configs":   {`{"configs":{}}`, `"configs" is no list`, -1},
		"wrong section":   {`{"configs":[7]}`, `an entry of "configs" is no object`, -1},
		"untyped":         {`{"configs":[{"bootstrap":{}}]}`, `does not begin with its "@type"`, -1},
		"old":             {`{"configs":[{"@type":"type.googleapis.com/envoy.admin.v2alpha.ClustersConfigDump"}]}`, "only Envoy's admin API v3", -1},
		"strange entry":   {`{"configs":[{"@type":"x/envoy.admin.v3.ClustersConfigDump","dynamic_active_clusters":[7]}]}`, "has an entry that is no object", -1},
		"more behind":     {`{"configs":[{"@type":"x/envoy.admin.v3.ClustersConfigDump"}]} {}`, "something follows the document", -1},
		"cut":             {string(whole[:len(whole)/2]), "cut short", int64(len(whole) / 2)},
		"cut at the end":  {strings.TrimRight(string(whole), "}\n "), "cut short", -1},
		"broken inside":   {strings.Replace(string(whole), `"cluster": {`, `"cluster": {,`, 1), "invalid character ','", -1},
		"deep":            {`{"configs":` + strings.Repeat("[", 20000), "", -1},
		"deep in a value": {`{"configs":[{"@type":"x/envoy.admin.v3.ClustersConfigDump","a":[{"b":` + strings.Repeat("[", 20000), "", -1},
	} {
		p, err := ReadDump(strings.NewReader(c.text), name, Options{})
		var failure *DumpError
		if !errors.As(err, &failure) || !strings.Contains(err.Error(), c.want) || errs.Code(err) != errs.CodeUsage || errs.Hint(err) == "" {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.offset >= 0 && failure.Offset != c.offset {
			t.Errorf("%s: byte %d", name, failure.Offset)
		}
		if !p.Incomplete {
			t.Errorf("%s: looks like a whole dump", name)
		}
		checkSums(t, p)
	}
	// A failing reader is not the dump's fault.
	broken := errors.New("connection lost")
	_, err := ReadDump(io.MultiReader(bytes.NewReader(whole[:100_000]), iotest.ErrReader(broken)), "x", Options{})
	if !errors.Is(err, broken) || errs.Code(err) != errs.CodeFailure {
		t.Errorf("%v", err)
	}
	// A long value ends at the limit.
	long := `{"configs":[{"@type":"x/envoy.admin.v3.ClustersConfigDump","dynamic_active_clusters":[{"a":"` + strings.Repeat("x", 4<<20)
	if _, err := ReadDump(strings.NewReader(long), "x", Options{MaxResource: 1 << 20}); err == nil || !strings.Contains(err.Error(), "longer than 1 MB") {
		t.Errorf("%v", err)
	}
}

// The members of a document that is not a list share a limit.
func TestObjectWithoutEnd(t *testing.T) {
	member := `"a":"` + strings.Repeat("x", 1<<20) + `",`
	members := streamtest.Parts(MaxResource>>20+1, func(int) string { return member })
	err := ReadObjects(io.MultiReader(strings.NewReader("{"), members), func(string, json.RawMessage) error { return errors.New("an object") })
	if err == nil || !strings.Contains(err.Error(), "longer than 64 MB together") {
		t.Errorf("%v", err)
	}
}

// A section that this version does not know is counted as unattributed.
func TestUnknownSection(t *testing.T) {
	text := `{"configs":[{"@type":"type.googleapis.com/envoy.admin.v3.FutureConfigDump","version":1,"more":{"a":[{}]},"things":[{"name":"a"},{"name":"b"}]}]}`
	p, err := ReadDump(strings.NewReader(text), "x", Options{})
	must.OK(t, err)
	checkSums(t, p)
	want := OwnerSize{Owner: Owner{KindUnattributed, "", TypeOther}, Resources: 2, DumpBytes: 24}
	if p.DumpBytes != int64(len(text)) || p.Owners[1] != want {
		t.Errorf("%+v", p)
	}
	if len(p.Notes) != 1 || p.Notes[0].Code != NoteNoEndpoints {
		t.Errorf("%+v", p.Notes)
	}
}

func TestLargestAreKept(t *testing.T) {
	all := read(t, "sidecar")
	few, err := ReadDump(bytes.NewReader(recorded(t, "sidecar")), "sidecar", Options{Keep: 5})
	must.OK(t, err)
	if !reflect.DeepEqual(few.Largest, all.Largest[:5]) || few.Largest[0].Type != TypeBootstrap {
		t.Errorf("%+v", few.Largest)
	}
}

func TestCalls(t *testing.T) {
	p := read(t, "sidecar")
	if Merge([]Proxy{p}, 0).Uncalled != nil {
		t.Error("calls of a proxy that nobody asked")
	}
	counts, err := ReadCounts(bytes.NewReader(recorded(t, "clusters")))
	calls := counts.Calls
	if err != nil || len(calls) != 27 || calls["xds-grpc"] != 1 || calls["agent"] != 6 {
		t.Fatalf("%v, %v", calls, err)
	}
	p.SetCalls(calls)
	u := Merge([]Proxy{p}, 0).Uncalled
	if u == nil || u.Clusters != 17 || u.Never != 17 || u.NeverBytes != u.DumpBytes || u.DumpBytes == 0 {
		t.Fatalf("%+v", u)
	}
	// One call to one port, and the service is no longer listed.
	calls["outbound|9000|v1|catalog.shop.svc.cluster.local"] = 3
	calls["outbound|80||payments.example.com"] = 1
	delete(calls, "outbound|80||edge.shop.svc.cluster.local")
	p = read(t, "sidecar")
	p.SetCalls(calls)
	other := read(t, "sidecar")
	r := Merge([]Proxy{p, other}, 2)
	if u = r.Uncalled; u.Clusters != 16 || u.Never != 14 || len(u.Owners) != 2 {
		t.Fatalf("%+v", u)
	}
	for _, o := range u.Owners {
		if o.Owner.Name == "payments.example.com" || o.Owner.Name == "catalog-subsets" || o.Proxies != 1 {
			t.Errorf("%+v", o)
		}
	}
	for name, text := range map[string]string{"empty": "", "no object": "[]", "another thing": "{}", "cut": `{"cluster_statuses":[{"name":"a"`, "wrong": `{"cluster_statuses":[{"name":7}]}`} {
		if _, err := ReadCounts(strings.NewReader(text)); err == nil || errs.Code(err) != errs.CodeUsage {
			t.Errorf("%s: %v", name, err)
		}
	}
	hosts := `{"cluster_statuses":[{"name":"a","host_statuses":[{"stats":[{"name":"rq_total","value":"5"},{"name":"cx_total","value":"2"}]},{"stats":[{"name":"cx_total","value":"9"},{"name":"rq_total"}]}]}]}`
	if counts, err := ReadCounts(strings.NewReader(hosts)); err != nil || counts.Calls["a"] != 11 {
		t.Errorf("%v, %v", calls, err)
	}
}

// White space without an end is refused before the decoder has scanned it again and again, and so is
// endless nesting of what is skipped.
func TestEndlessInput(t *testing.T) {
	for name, text := range map[string]string{"blanks": "{" + strings.Repeat(" \n", 4<<20) + `"configs":[]}`, "nested": `{"x":` + strings.Repeat("[", 1<<20)} {
		in := &countingReader{r: strings.NewReader(text)}
		if _, err := ReadDump(in, "a", Options{}); err == nil || in.read > 3<<20 {
			t.Errorf("%s: %v after %d bytes", name, err, in.read)
		}
	}
	if _, err := ReadDump(strings.NewReader(`{"configs":[{"@type":"type.googleapis.com/envoy.admin.v3.ClustersConfigDump"`+strings.Repeat(" ", 300<<10)+"}]}"), "a", Options{}); err != nil {
		t.Errorf("some white space: %v", err)
	}
}

type countingReader struct {
	r    io.Reader
	read int
}

func (c *countingReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.read += n
	return n, err
}

// Of each endpoint that received anything, a proxy counts the requests, and tells of those that it parsed how they ended.
func TestCounts(t *testing.T) {
	counts, err := ReadCounts(bytes.NewReader(recorded(t, "clusters")))
	must.OK(t, err)
	for cluster, want := range map[string]Count{"agent": {6, true, 1}, "xds-grpc": {1, false, 1}} {
		if c := counts.Endpoints[cluster]; len(c) != 1 || !slices.Contains(slices.Collect(maps.Values(c)), want) {
			t.Errorf("%s: %v", cluster, c)
		}
	}
	if len(counts.Endpoints) != 3 || len(counts.Calls) != 27 {
		t.Errorf("%v", counts)
	}
}

func TestMerge(t *testing.T) {
	a, b := read(t, "sidecar"), read(t, "gateway")
	whole := Merge([]Proxy{a, b, a}, 0)
	sum, share := int64(0), 0.0
	for i, o := range whole.Owners {
		sum, share = sum+o.DumpBytes, share+o.Share
		if i > 0 && o.DumpBytes > whole.Owners[i-1].DumpBytes {
			t.Error("owners are not in order")
		}
	}
	if sum != whole.DumpBytes || sum != 2*a.DumpBytes+b.DumpBytes || share < 0.999999 || share > 1.000001 {
		t.Errorf("owners have %d of %d bytes, %v", sum, whole.DumpBytes, share)
	}
	if first := whole.Owners[0]; first.Owner != bootstrap || first.Proxies != 3 {
		t.Errorf("%+v", first)
	}
	top := Merge([]Proxy{a, b, a}, 3)
	left := top.OtherOwners.DumpBytes
	for _, o := range top.Owners {
		left += o.DumpBytes
	}
	if len(top.Owners) != 3 || top.OtherOwners.Owners != len(whole.Owners)-3 || left != top.DumpBytes || len(top.Proxies[0].Largest) != 3 {
		t.Errorf("%+v", top)
	}
	if len(a.Owners) == 3 || len(whole.Proxies[0].Owners) == 3 {
		t.Error("Merge shortened its arguments")
	}
	none := Merge(nil, 0)
	if text, err := json.Marshal(none); err != nil || !strings.Contains(string(text), `"owners":[]`) {
		t.Errorf("%s, %v", text, err)
	}
}
