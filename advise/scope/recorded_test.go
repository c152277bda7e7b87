package scope

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/confile"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
)

// sent returns a recorded dump's configuration as a simulated sidecar has it.
func sent(t testing.TB, name string, h confile.Header) ([]byte, int64) {
	t.Helper()
	var file bytes.Buffer
	w, err := confile.NewWriter(&file, h)
	must.OK(t, err)
	urls, names, bodies, _ := wireResources(t, name)
	sum := int64(0)
	for i := range urls {
		must.OK(t, w.Write(confile.Resource{TypeURL: urls[i], Name: names[i], Body: bodies[i]}))
		sum += int64(len(bodies[i]))
	}
	return file.Bytes(), sum
}

func TestReadRecorded(t *testing.T) {
	file, sum := sent(t, "sidecar", confile.Header{Proxy: "a.shop", Type: "sidecar", Proxies: 7, Lost: 2})
	p, err := Read(bytes.NewReader(file), "a", Options{})
	must.OK(t, err)
	checkSums(t, p)
	if !p.Simulated || p.Kind != "sidecar" || p.Alike != 7 || p.WireBytes != sum || p.DumpBytes <= sum || p.Incomplete {
		t.Errorf("%d bytes on the wire, want %d; %d as JSON; %+v", p.WireBytes, sum, p.DumpBytes, p)
	}
	if !slices.Contains(p.Notes, Note{Code: NoteLost, Proxy: "a", N: 2}) {
		t.Errorf("%+v", p.Notes)
	}
	if owned(p)[Owner{"Service", "shop", "catalog"}].WireBytes == 0 {
		t.Error("nothing is Service shop/catalog's")
	}
	p, err = Read(bytes.NewReader(file[:len(file)/2]), "a", Options{})
	if errs.Code(err) != errs.CodeUsage || !p.Incomplete || p.WireBytes == 0 || p.WireBytes >= sum {
		t.Errorf("cut: %d bytes, %v", p.WireBytes, err)
	}
	checkSums(t, p)
	// A dump is recognized as a dump.
	if p, err := Read(bytes.NewReader(recorded(t, "sidecar")), "a", Options{}); err != nil || p.Simulated || p.WireBytes != 0 {
		t.Errorf("%+v, %v", p.Simulated, err)
	}
	if _, err := Read(strings.NewReader(""), "a", Options{}); err == nil || !strings.Contains(err.Error(), "it is empty") {
		t.Errorf("nothing: %v", err)
	}
}

// What a ztunnel was sent is counted, and a note says that no owners are named.
func TestReadRecordedZtunnel(t *testing.T) {
	var file bytes.Buffer
	w, err := confile.NewWriter(&file, confile.Header{Proxy: "meshtrial-0.default", Type: "ztunnel"})
	must.OK(t, err)
	for typ, body := range map[string]string{"istio.workload.Address": "0123456789", "istio.security.Authorization": "01234"} {
		must.OK(t, w.Write(confile.Resource{TypeURL: "type.googleapis.com/" + typ, Name: "one", Body: []byte(body)}))
	}
	p, err := Read(&file, "meshtrial-0.default", Options{})
	if err != nil || p.Kind != "ztunnel" || p.WireBytes != 15 || p.Resources != 2 {
		t.Fatalf("%+v, %v", p, err)
	}
	checkSums(t, p)
	types := map[string]TypeSize{}
	for _, x := range p.Types {
		types[x.Type] = x
	}
	if len(types) != 2 || types[TypeWorkload].WireBytes != 10 || types[TypeAuthorization].WireBytes != 5 {
		t.Errorf("%v", types)
	}
	got := owned(p)
	if got[Owner{KindUnattributed, "", "type istio.workload.Address"}].WireBytes != 10 ||
		got[Owner{KindUnattributed, "", "type istio.security.Authorization"}].WireBytes != 5 {
		t.Errorf("%v", got)
	}
	if len(p.Notes) != 1 || p.Notes[0].Code != NoteZtunnel {
		t.Errorf("%+v", p.Notes)
	}
}

// An EnvoyFilter owns what it adds, in a dump and on the wire.
func TestEnvoyFilters(t *testing.T) {
	text, err := os.ReadFile("testdata/envoyfilters.json")
	must.OK(t, err)
	filters, err := ReadFilters(bytes.NewReader(text))
	must.OK(t, err)
	owner := Owner{Kind: "EnvoyFilter", Namespace: "shop", Name: "add-header"}
	both := Owner{Kind: "EnvoyFilter", Namespace: "shop", Name: "two"}
	if len(filters) != 4 || filters[0] != (FilterPatch{owner, "envoy.filters.http.lua"}) {
		t.Fatalf("%+v", filters)
	}
	const dump = `{"configs":[{"@type":"t/envoy.admin.v3.ListenersConfigDump","dynamic_listeners":[{"name":"l","active_state":{"listener":{"name":"l","filter_chains":[{"filters":[` +
		`{"name":"my.network","typed_config":{}},{"name":"envoy.filters.network.http_connection_manager","typed_config":{"http_filters":[{"name":"envoy.filters.http.lua","typed_config":{"inline":"x"}},{"name":"unknown.filter"}]}}]}]}}}]},` +
		`{"@type":"t/envoy.admin.v3.ClustersConfigDump","dynamic_active_clusters":[{"cluster":{"name":"lua_cluster"}},{"cluster":{"name":"contested"}}]}]}`
	p, err := ReadDump(strings.NewReader(dump), "x", Options{Filters: filters})
	must.OK(t, err)
	checkSums(t, p)
	got := owned(p)
	if want := int64(len(`{"cluster":{"name":"lua_cluster"}}`) + len(`{"name":"envoy.filters.http.lua","typed_config":{"inline":"x"}}`)); got[owner].DumpBytes != want {
		t.Errorf("%+v, want %d bytes", got[owner], want)
	}
	if got[both].DumpBytes != int64(len(`{"name":"my.network","typed_config":{}}`)) {
		t.Errorf("%+v", got[both])
	}
	if !has(p, Owner{KindUnattributed, "", "HTTP filter unknown.filter"}) {
		t.Errorf("%v", got)
	}
	for name, text := range map[string]string{"no JSON": "x", "a list": "[]", "a text": `"x"`, "a number": `{"items":5}`, "a word": `{"items":[true]}`} {
		if _, err := ReadFilters(strings.NewReader(text)); err == nil {
			t.Errorf("%s is a list of EnvoyFilters", name)
		}
	}
	if one, err := ReadFilters(strings.NewReader(`{"kind":"EnvoyFilter","metadata":{"name":"a","namespace":"b"},"spec":{"configPatches":[{"patch":{"operation":"ADD","value":{"name":"c"}}}]}}`)); err != nil || len(one) != 1 {
		t.Errorf("%+v, %v", one, err)
	}
	if none, err := ReadFilters(strings.NewReader(`{"kind":"List","items":[]}`)); err != nil || len(none) != 0 {
		t.Errorf("%+v, %v", none, err)
	}
}

func TestContestedFilters(t *testing.T) {
	a, b := Owner{Kind: "EnvoyFilter", Namespace: "x", Name: "a"}, Owner{Kind: "EnvoyFilter", Namespace: "x", Name: "b"}
	got := Filters{{a, "f"}, {a, "f"}, {b, "g"}, {a, "g"}}.byName()
	if got["f"] != a || got["g"].Kind != KindUnattributed {
		t.Errorf("%+v", got)
	}
}

func FuzzReadRecorded(f *testing.F) {
	file, _ := sent(f, "gateway", confile.Header{Proxy: "edge.shop", Type: "router"})
	f.Add(file[:20_000])
	f.Add([]byte(`{"meshtrial_configuration":1}` + "\n" + `{"type":"t/envoy.config.cluster.v3.Cluster","name":"x","body":"CgF4"}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ReadRecorded(bytes.NewReader(data), "x", Options{})
		if err != nil && !p.Incomplete {
			t.Errorf("%v, and it looks whole", err)
		}
		checkSums(t, p)
	})
}

func FuzzReadFilters(f *testing.F) {
	f.Add([]byte(`{"items":[{"kind":"EnvoyFilter","spec":{"configPatches":[{"patch":{"operation":"ADD","value":{"name":"c"}}}]}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		filters, _ := ReadFilters(bytes.NewReader(data))
		for _, p := range filters {
			if p.Name == "" {
				t.Errorf("a patch without a name: %v", filters)
			}
		}
	})
}
