package istio

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
)

// FuzzReadParts verifies that the result does not depend on the order of a
// dump's sections, which Envoy does not guarantee.
func FuzzReadParts(f *testing.F) {
	f.Add(dumpOf("strict", "json", true))
	f.Add([]byte(`{"configs": [{"bootstrap": {"node": {"metadata": {"DNS_CAPTURE": "true"}}}}, {"dynamic_listeners": [{"name": "virtualInbound", "active_state": {"listener":
		{"filter_chains": [{"filter_chain_match": {"destination_port": 8080}, "filters": [{"name": "a", "typed_config": {"http_filters": [
		{"name": "envoy.filters.http.rbac", "typed_config": {"rules": {"policies": {"a": {}}}}}, {"name": "meshtrial.planted", "typed_config": {"inline_string": "spent() + 9x"}}]}}]}]}}}]}]}`))
	f.Add([]byte(`{"configs": [{"dynamic_listeners": [{"name": "virtualInbound", "active_state": {"listener": 7}}]}]}`))
	f.Fuzz(func(t *testing.T, dump []byte) {
		var all map[string]any
		if _, err := readParts(dump, port); err != nil || json.Unmarshal(dump, &all) != nil {
			return
		}
		configs, ok := all["configs"].([]any)
		if !ok || len(all) > 1 {
			return // keys that differ only in case would be reordered
		}
		read := func() partsIn {
			text, err := json.Marshal(all)
			must.OK(t, err)
			parts, err := readParts(text, port)
			if err != nil {
				return partsIn{}
			}
			return parts
		}
		parts := read()
		slices.Reverse(configs)
		if other := read(); !sameParts(parts, other) {
			t.Errorf("%s is read as %+v, backwards as %+v", dump, parts, other)
		}
	})
}

// sameParts compares parts, ignoring the order of refused messages.
func sameParts(a, b partsIn) bool {
	slices.Sort(a.refused)
	slices.Sort(b.refused)
	return reflect.DeepEqual(a, b)
}

// FuzzSettled verifies that settled is idempotent.
func FuzzSettled(f *testing.F) {
	f.Add(dumpOf("strict", "json", true))
	f.Add([]byte(`{"configs": [{"@type": "x.SecretsConfigDump"}, {"@type": "a", "last_updated": "x", "b": [{"version_info": "1", "c": null}]}]}`))
	f.Add([]byte(`{"configs": [null, {"@type": 7}]}`))
	f.Fuzz(func(t *testing.T, dump []byte) {
		once, err := settled(dump)
		if err != nil {
			return
		}
		var configs []any
		for _, c := range once.(map[string]any) {
			configs = append(configs, c)
		}
		text, err := json.Marshal(map[string]any{"configs": configs})
		must.OK(t, err)
		if twice, err := settled(text); err != nil || !reflect.DeepEqual(once, twice) {
			t.Errorf("%s settles to %v, and that to %v, %v", dump, once, twice, err)
		}
	})
}

// FuzzMeshConfig verifies that levers change only what they are about in a mesh
// configuration, as istiod parses it (Istio's protomarshal, by this YAML
// parser), and that setting them again changes nothing.
func FuzzMeshConfig(f *testing.F) {
	f.Add("defaultConfig: {proxyMetadata: {A: b}, concurrency: 2}\ntrustDomain: x\ndiscoverySelectors: [{matchLabels: {a: b}}]\n")
	f.Add("defaultConfig: {proxyMetadata: {A: \"on\", B: '1', C: '0o7', D: '1_0', E: '12:30'}, tracing: {sampling: 1.5}}\nenableAutoMtls: off\nrootNamespace: \"no\"\n")
	f.Add("defaultConfig: [1]\ndefaultServiceExportTo: null\n")
	f.Add("defaultConfig: {proxyMetadata: 7}\n")
	f.Add("a: 1000000000\nb: 2026-11-25\nc: 0x10\nd: |\n  e\n  f\n")
	f.Add("null")
	f.Add("7")
	levers := mesh.LeversOf(record.Cell{"discovery_selectors": "a!=b", "outbound_policy": "REGISTRY_ONLY", "export_to": ".", "delta": "false", "dns_capture": "true"})
	f.Fuzz(func(t *testing.T, original string) {
		var before, after map[string]any
		if yaml.Unmarshal([]byte(original), &before) != nil {
			return // istiod would not accept it
		}
		once, err := desiredMeshConfig(original, levers)
		if err != nil {
			t.Fatalf("%q: %v", original, err)
		}
		if twice, err := desiredMeshConfig(once, levers); err != nil || once != twice {
			t.Errorf("%q: the levers make\n%s, and again\n%s, %v", original, once, twice, err)
		}
		if err := yaml.Unmarshal([]byte(once), &after); err != nil {
			t.Fatalf("%q becomes %q: %v", original, once, err)
		}
		kept := func(where string, before, after map[string]any, ours ...string) {
			for key, value := range before {
				if !slices.Contains(ours, key) && !reflect.DeepEqual(after[key], value) {
					t.Errorf("%q: %s%s is %#v, and becomes %#v", original, where, key, value, after[key])
				}
			}
		}
		kept("", before, after, append([]string{"discoverySelectors", "outboundTrafficPolicy", "defaultConfig"}, exportFields...)...)
		part := func(of map[string]any, key string) map[string]any { out, _ := of[key].(map[string]any); return out }
		was, is := part(before, "defaultConfig"), part(after, "defaultConfig")
		kept("defaultConfig.", was, is, "proxyMetadata")
		var ours []string
		for _, l := range controlplane.Levers() {
			ours = append(ours, l.Lever.ProxyMetadata)
		}
		kept("proxyMetadata.", part(was, "proxyMetadata"), part(is, "proxyMetadata"), ours...)
	})
}
