package scope

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// Filters are a mesh's EnvoyFilters, by what they add. Istiod writes no
// EnvoyFilter's name into a resource, so that only its own text tells what is
// its.
type Filters []FilterPatch

// FilterPatch is something that an EnvoyFilter adds to proxies.
type FilterPatch struct {
	Owner Owner
	// Name is that of the filter, cluster, listener, route or extension that
	// it adds.
	Name string
}

// maxFilters bounds a list of EnvoyFilters, bytes of JSON.
const maxFilters = 64 << 20

// adds are the operations that bring something new
// (istio.io/api/networking/v1alpha3, EnvoyFilter_Patch_Operation).
var adds = map[string]bool{"ADD": true, "INSERT_BEFORE": true, "INSERT_AFTER": true, "INSERT_FIRST": true, "REPLACE": true}

// ReadFilters reads what `kubectl get envoyfilters -A -o json` prints, or one
// EnvoyFilter as JSON. Patches that change what is there (MERGE, REMOVE) add
// nothing that could be told apart.
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

// byName says who adds what. A name that several add belongs to neither.
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

// otherwise is who an EnvoyFilter's text names for something that istiod does
// not write itself, else unattributed with what it is.
func (n names) otherwise(name, what string) claim {
	if owner, ok := n.filters[name]; ok {
		return by(owner)
	}
	return unexplained(what)
}
