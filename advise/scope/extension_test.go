package scope

import (
	"fmt"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
)

// A Wasm extension is shown by name, whichever resource added it.
func TestWasmExtensions(t *testing.T) {
	wasm := func(plugin string) string {
		return `"typed_config":{"@type":"t/envoy.extensions.filters.http.wasm.v3.Wasm","config":{` + plugin + `"vm_config":{"runtime":"envoy.wasm.runtime.v8"}}}`
	}
	added := Owner{Kind: "EnvoyFilter", Namespace: "shop", Name: "add"}
	several := Filters{{added, "contested"}, {Owner{Kind: "EnvoyFilter", Namespace: "bank", Name: "add"}, "contested"}, {added, "own"}}
	for filter, want := range map[string]Owner{
		`{"name":"extenstions.istio.io/wasmplugin/shop.auth"}`:                                                                                    {"WasmPlugin", "shop", "auth"},
		`{"name":"extenstions.istio.io/wasmplugin/auth"}`:                                                                                         {"WasmPlugin", "", "auth"},
		`{"name":"extensions.istio.io/wasmplugin/auth",` + wasm("") + `}`:                                                                         {"WasmPlugin", "", "auth"},
		`{"name":"auth",` + wasm("") + `}`:                                                                                                        {KindWasm, "", "auth"},
		`{"name":"envoy.filters.http.wasm",` + wasm(`"name":"auth",`) + `}`:                                                                       {KindWasm, "", "auth"},
		`{"name":"envoy.filters.http.wasm",` + wasm(`"root_id":"auth_root",`) + `}`:                                                               {KindWasm, "", "auth_root"},
		`{"name":"x",` + wasm(`"name":"extenstions.istio.io/wasmplugin/shop.auth",`) + `}`:                                                        {"WasmPlugin", "shop", "auth"},
		`{"name":"auth","typed_config":{"@type":"t/udpa.type.v1.TypedStruct","value":{"config":{"name":"auth_plugin","vmConfig":{"vmId":"a"}}}}}`: {KindWasm, "", "auth_plugin"},
		`{"name":"auth","config_discovery":{"type_urls":["type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm"]}}`:                     {KindWasm, "", "auth"},
		`{"name":"own",` + wasm(`"name":"auth",`) + `}`:                                                                                           added,
		`{"name":"contested",` + wasm(`"name":"auth",`) + `}`:                                                                                     {KindWasm, "", "auth"},
		`{"name":"envoy.filters.http.lua","typed_config":{"config":{"name":"a"}}}`:                                                                {KindUnattributed, "", "HTTP filter envoy.filters.http.lua"},
	} {
		dump := fmt.Sprintf(`{"configs":[{"@type":"t/envoy.admin.v3.EndpointsConfigDump"},{"@type":"t/envoy.admin.v3.ListenersConfigDump","dynamic_listeners":[{"name":"l","active_state":{"listener":{"name":"l","filter_chains":[{"filters":[`+
			`{"name":"envoy.filters.network.http_connection_manager","typed_config":{"http_filters":[%s]}}]}]}}}]}]}`, filter)
		p, err := ReadDump(strings.NewReader(dump), "x", Options{Filters: several})
		must.OK(t, err)
		checkSums(t, p)
		if found := owned(p)[want].DumpBytes; found != int64(len(filter)) {
			t.Errorf("%s: %d of %d bytes of %s: %+v", filter, found, len(filter), want, p.Owners)
		}
	}
	const ecds = `{"configs":[{"@type":"t/envoy.admin.v3.EcdsConfigDump","ecds_filters":[{"ecds_filter":{"name":"auth","typed_config":{"config":{"vm_config":{"a":1}}}}},{"ecds_filter":{"name":"other"}}]}]}`
	p, err := ReadDump(strings.NewReader(ecds), "x", Options{})
	if err != nil || p.Resources != 2 || p.Largest[0].Owner != (Owner{KindWasm, "", "auth"}) || p.Largest[1].Owner != (Owner{KindUnattributed, "", "extension other"}) {
		t.Errorf("%+v, %v", p.Largest, err)
	}
	// The same for a network filter.
	const network = `{"configs":[{"@type":"t/envoy.admin.v3.ListenersConfigDump","dynamic_listeners":[{"name":"l","active_state":{"listener":{"name":"l","filter_chains":[{"filters":[{"name":"envoy.filters.network.wasm","typed_config":{"config":{"name":"tcp","vm_config":{"a":1}}}},{"name":"envoy.filters.network.tcp_proxy","typed_config":{"cluster":"outbound|80||a.b.svc.cluster.local"}}]}]}}}]}]}`
	p, err = ReadDump(strings.NewReader(network), "x", Options{})
	if err != nil || !has(p, Owner{KindWasm, "", "tcp"}) || !has(p, Owner{"Service", "b", "a"}) {
		t.Errorf("%+v, %v", p.Owners, err)
	}
}

func has(p Proxy, o Owner) bool { return owned(p)[o].DumpBytes > 0 }
