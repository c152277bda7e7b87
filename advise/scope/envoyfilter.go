package scope

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/meshtrial/meshtrial/internal/errs"
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

// maxFilters is the maximum size of a list of EnvoyFilters, in bytes of JSON.
const maxFilters = 64 << 20

// adds are the operations that add something new
// (istio.io/api/networking/v1alpha3, EnvoyFilter_Patch_Operation).
var adds = map[string]bool{"ADD": true, "INSERT_BEFORE": true, "INSERT_AFTER": true, "INSERT_FIRST": true, "REPLACE": true}

// ReadFilters reads the output of `kubectl get envoyfilters -A -o json`, or one
// EnvoyFilter as JSON. Patches that change existing configuration (MERGE,
// REMOVE) add nothing that could be distinguished.
func ReadFilters(r io.Reader) (Filters, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFilters+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFilters {
		return nil, errs.Usage("EnvoyFilters: longer than %d MB", maxFilters>>20)
	}
	type object struct {
		Kind     string `json:"kind"`
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
	var list struct {
		object
		Items []object `json:"items"`
	}
	err = json.Unmarshal(data, &list)
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		err = fmt.Errorf("byte %d: unexpected %s", wrong.Offset, wrong.Value)
	}
	if err != nil {
		return nil, errs.WithHint(errs.Usage("EnvoyFilters: %v", err), "list them with: kubectl get envoyfilters -A -o json")
	}
	if list.Kind == "EnvoyFilter" {
		list.Items = append(list.Items, list.object)
	} else if list.Items == nil {
		return nil, errs.WithHint(errs.Usage("EnvoyFilters: this is no list of objects"), "list them with: kubectl get envoyfilters -A -o json")
	}
	out := Filters{}
	for _, f := range list.Items {
		if f.Kind != "EnvoyFilter" && f.Kind != "" {
			return nil, errs.Usage("EnvoyFilters: %s is a %s", f.Metadata.Name, f.Kind)
		}
		for _, p := range f.Spec.Patches {
			if adds[p.Patch.Operation] && p.Patch.Value.Name != "" {
				out = append(out, FilterPatch{Owner: Owner{Kind: "EnvoyFilter", Namespace: f.Metadata.Namespace, Name: f.Metadata.Name}, Name: p.Patch.Value.Name})
			}
		}
	}
	return out, nil
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
