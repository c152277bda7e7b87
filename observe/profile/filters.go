package profile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// ConfigFilter is a filter that a proxy was configured with.
type ConfigFilter struct {
	Group string `json:"group"` // GroupHTTPFilter, GroupNetworkFilter, GroupListenerFilter
	Name  string `json:"name"`  // in the configuration
	// Centre is the name of its functions' cost centre.
	Centre string `json:"centre"`
	Type   string `json:"type,omitempty"` // of the message
	// Plugin and Runtime are set for Wasm filters.
	Plugin  string `json:"plugin,omitempty"`
	Runtime string `json:"runtime,omitempty"`
	Places  int    `json:"places"` // filter chains with it
}

// ReadFilters lists the distinct filters of an Envoy's /config_dump, ordered by
// group and name. See envoy/config/listener/v3/listener.proto and
// envoy/extensions/filters/network/http_connection_manager.
func ReadFilters(dump []byte) ([]ConfigFilter, error) {
	var document any
	if err := json.Unmarshal(dump, &document); err != nil {
		return nil, fmt.Errorf("config dump: %w", err)
	}
	object, ok := document.(map[string]any)
	if _, has := object["configs"]; !ok || !has {
		return nil, fmt.Errorf("config dump: no configs in it: is it the answer of an Envoy's /config_dump?")
	}
	found := map[ConfigFilter]int{}
	visitFilters(document, 0, found)
	out := make([]ConfigFilter, 0, len(found))
	for f, places := range found {
		f.Places = places
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b ConfigFilter) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Type, b.Type),
			cmp.Compare(a.Plugin, b.Plugin))
	})
	return out, nil
}

// filterLists lists the fields that contain filters.
var filterLists = map[string]string{
	"http_filters":     GroupHTTPFilter,
	"filters":          GroupNetworkFilter,
	"listener_filters": GroupListenerFilter,
}

// maxConfigDepth limits the search depth in a dump.
const maxConfigDepth = 200

func visitFilters(v any, depth int, found map[ConfigFilter]int) {
	if depth > maxConfigDepth {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			if group := filterLists[key]; group != "" {
				list, _ := inner.([]any)
				for _, one := range list {
					if f, ok := configFilter(group, one); ok {
						found[f]++
					}
				}
			}
			visitFilters(inner, depth+1, found)
		}
	case []any:
		for _, inner := range v {
			visitFilters(inner, depth+1, found)
		}
	}
}

func configFilter(group string, v any) (f ConfigFilter, ok bool) {
	object, _ := v.(map[string]any)
	f = ConfigFilter{Group: group}
	if f.Name, ok = object["name"].(string); !ok {
		return f, false
	}
	typed, _ := object["typed_config"].(map[string]any)
	f.Type, _ = typed["@type"].(string)
	if f.Type == typedStruct || f.Type == udpaStruct {
		f.Type, _ = typed["type_url"].(string)
		typed, _ = typed["value"].(map[string]any)
	}
	f.Type = strings.TrimPrefix(f.Type, "type.googleapis.com/")
	if strings.Contains(f.Type, ".wasm.") {
		config, _ := typed["config"].(map[string]any)
		name, _ := config["name"].(string)
		root, _ := config["root_id"].(string)
		f.Plugin = cmp.Or(name, root)
		vm, _ := config["vm_config"].(map[string]any)
		f.Runtime, _ = vm["runtime"].(string)
	}
	f.Centre = configCentre(f)
	return f, true
}

const (
	typedStruct = "type.googleapis.com/xds.type.v3.TypedStruct"
	udpaStruct  = "type.googleapis.com/udpa.type.v1.TypedStruct"
)

// configCentre returns the name of the cost centre that the rules assign to a
// filter's functions, by its type, because configured names are arbitrary.
func configCentre(f ConfigFilter) string {
	switch {
	case strings.Contains(f.Type, ".wasm."):
		return GroupWasm
	case strings.HasPrefix(f.Type, "stats.") || strings.Contains(f.Type, "istio_stats"):
		return "istio.stats"
	case strings.Contains(f.Type, "filter.http.alpn"):
		return "istio.alpn"
	case strings.Contains(f.Type, "peer_metadata"):
		return "istio.peer_metadata"
	case strings.Contains(f.Type, "metadataexchange") || strings.Contains(f.Type, "metadata_exchange"):
		return "istio.metadata_exchange"
	}
	for _, kind := range []string{"http", "network", "listener"} {
		if _, rest, ok := strings.Cut(f.Type, "envoy.extensions.filters."+kind+"."); ok {
			name, _, _ := strings.Cut(rest, ".")
			return "envoy.filters." + kind + "." + name
		}
	}
	return f.Name
}
