package istio

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/meshtrial/meshtrial/mesh"
)

var (
	_ mesh.Extender     = (*Mesh)(nil)
	_ mesh.HeaderSetter = (*Mesh)(nil)
)

// ExtensionObject returns an EnvoyFilter for only w's sidecars, regardless of
// the workloads that the user's own selects.
func (*Mesh) ExtensionObject(w mesh.Workload, x mesh.Extension) *unstructured.Unstructured {
	o := envoyFilter(w)
	o.SetName(w.Name + "-" + x.Name)
	spec := o.Object["spec"].(map[string]any) // set by envoyFilter
	spec["configPatches"] = runtime.DeepCopyJSONValue(patchesFor(x))
	if x.Priority != 0 {
		spec["priority"] = x.Priority
	}
	return o
}

// patchesFor returns an extension's patches. A Wasm filter is configured apart from its listener, as
// that of a WasmPlugin is, so that all chains share one copy of the module. See istio.io/docs,
// Reference, Envoy Filter, EXTENSION_CONFIG.
func patchesFor(x mesh.Extension) []any {
	if x.Wasm == nil {
		return x.Patches
	}
	name := ourFilters + x.Part
	return []any{
		map[string]any{"applyTo": "EXTENSION_CONFIG", "match": map[string]any{"context": "SIDECAR_INBOUND"},
			"patch": map[string]any{"operation": "ADD", "value": map[string]any{"name": name, "typed_config": wasmFilter(x.Part, x.Wasm)}}},
		beforeRouter("", map[string]any{"name": name, "config_discovery": map[string]any{
			"config_source": map[string]any{"ads": map[string]any{}, "resource_api_version": "V3"}, "type_urls": []any{wasmType}}}),
	}
}

// ExtensionNames returns the names that patches insert, add or replace.
func (*Mesh) ExtensionNames(x mesh.Extension) []string {
	var out []string
	for _, one := range patchesFor(x) {
		p, _ := one.(map[string]any)
		patch, _ := p["patch"].(map[string]any)
		value, _ := patch["value"].(map[string]any)
		name, _ := value["name"].(string)
		operation, _ := patch["operation"].(string)
		if name != "" && (operation == "ADD" || operation == "REPLACE" || strings.HasPrefix(operation, "INSERT_")) {
			out = append(out, name)
		}
	}
	return out
}

// Took compares listeners, clusters and routes, ignoring their times.
func (*Mesh) Took(before, after []byte) (mesh.Uptake, error) {
	now, err := readParts(after, 0)
	if err != nil {
		return mesh.Uptake{}, err
	}
	if len(now.refused) > 0 {
		return mesh.Uptake{Refusal: strings.Join(now.refused, "; ")}, nil
	}
	// A listener waits for a filter's configuration, and then serves without it. If Envoy rejects
	// that, only its log says why.
	if slices.ContainsFunc(now.apart, func(name string) bool { return now.modules[name] == "" }) {
		return mesh.Uptake{}, nil
	}
	was, err := settled(before)
	if err != nil {
		return mesh.Uptake{}, err
	}
	is, err := settled(after)
	same := reflect.DeepEqual(was, is)
	return mesh.Uptake{InForce: err == nil && !same, Absent: err == nil && same}, err
}

// settled returns a configuration without certificates, times and versions.
func settled(data []byte) (any, error) {
	var d struct {
		Configs []map[string]any `json:"configs"`
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("configuration of the proxy: %w", err)
	}
	out := map[string]any{}
	for _, c := range d.Configs {
		name, _ := c["@type"].(string)
		if !strings.HasSuffix(name, ".SecretsConfigDump") && !strings.HasSuffix(name, ".BootstrapConfigDump") {
			out[name] = withoutTimes(c)
		}
	}
	return out, nil
}

func withoutTimes(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, inner := range v {
			if key != "last_updated" && key != "version_info" && key != "error_state" && key != "warming_state" && key != "draining_state" {
				out[key] = withoutTimes(inner)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = withoutTimes(inner)
		}
		return out
	}
	return v
}
