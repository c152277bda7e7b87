package scope

import (
	"encoding/json"
	"fmt"
	"io"
)

// Filters describes what a mesh's EnvoyFilters add. Istiod does not write an
// EnvoyFilter's name into resources, so only its own text identifies its
// additions.
type Filters []FilterPatch

// FilterPatch is something that an EnvoyFilter adds to proxies.
type FilterPatch struct {
	Owner Owner
	// Name is the name of the filter, cluster, listener, route or extension
	// that the patch adds.
	Name string
}

// adds are the operations that add something new
// (istio.io/api/networking/v1alpha3, EnvoyFilter_Patch_Operation).
var adds = map[string]bool{"ADD": true, "INSERT_BEFORE": true, "INSERT_AFTER": true, "INSERT_FIRST": true, "REPLACE": true}

// ReadFilters reads the output of `kubectl get envoyfilters -A -o json`, or one EnvoyFilter as JSON.
func ReadFilters(r io.Reader) (Filters, error) {
	var out Filters
	err := ReadObjects(r, func(_ string, raw json.RawMessage) error { return out.Add(raw) })
	if err != nil {
		err = fmt.Errorf("EnvoyFilters: %w", err)
	}
	return out, err
}

// Add adds the patches of an EnvoyFilter. Those that change existing configuration (MERGE, REMOVE)
// add nothing that could be distinguished.
func (f *Filters) Add(raw json.RawMessage) error {
	var o struct {
		Metadata struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"metadata"`
		Spec struct {
			Patches []struct {
				Patch struct {
					Operation string `json:"operation"`
					Value     struct {
						Name string `json:"name"`
					} `json:"value"`
				} `json:"patch"`
			} `json:"configPatches"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return err
	}
	for _, p := range o.Spec.Patches {
		if adds[p.Patch.Operation] && p.Patch.Value.Name != "" {
			*f = append(*f, FilterPatch{Owner: Owner{Kind: "EnvoyFilter", Namespace: o.Metadata.Namespace, Name: o.Metadata.Name}, Name: p.Patch.Value.Name})
		}
	}
	return nil
}

// byName returns who adds each name. A name that several add belongs to none of
// them.
func (f Filters) byName() map[string]Owner {
	out := map[string]Owner{}
	for _, p := range f {
		if known, found := out[p.Name]; found && known != p.Owner {
			out[p.Name] = Owner{Kind: KindUnattributed, Name: fmt.Sprintf("%s, of several EnvoyFilters", p.Name)}
			continue
		}
		out[p.Name] = p.Owner
	}
	return out
}

// otherwise attributes something that istiod does not write itself to the
// EnvoyFilter whose text names it, or else leaves it unattributed with a
// description.
func (n names) otherwise(name, what string) claim {
	if owner, ok := n.filters[name]; ok {
		return by(owner)
	}
	return unexplained(what)
}
