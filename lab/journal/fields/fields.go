// Package fields computes in which fields two versions of a Kubernetes object
// differ, and reverts such differences in a third version, the current object,
// wherever nobody else has changed them since.
//
// The package is pure: objects are the maps that client-go's unstructured
// objects hold. It ignores what the API server maintains (status, and all
// metadata but labels and annotations).
//
// A list whose items all have unique names (containers, environment variables,
// webhooks) is treated as a map by name; any other list is one value. A null
// field counts as absent, as in the API server.
package fields

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Step leads one level down: ".KEY" into a map, "@NAME" to the item of that name
// in a list.
type Step string

const (
	keyStep  = "."
	itemStep = "@"
	// nameKey is the key that identifies the items of a list.
	nameKey = "name"
)

func key(name string) Step  { return Step(keyStep + name) }
func item(name string) Step { return Step(itemStep + name) }

// item reports whether the step leads to an item of a list.
func (s Step) item() bool { return strings.HasPrefix(string(s), itemStep) }

// name returns the step's key or item.
func (s Step) name() string {
	if s == "" {
		return ""
	}
	return string(s[1:])
}

// Field is one changed place in an object.
type Field struct {
	// Path leads to the field.
	Path []Step `json:"path"`
	// There is the number of steps of the path that existed before the change.
	// Empty containers below them afterwards exist only for this field.
	There int `json:"there"`
	// Kept is the number of steps of the path that exist after the change. If
	// they no longer exist, the field's parent is gone.
	Kept int `json:"kept"`
	// Before is the value before the change; null or empty if it was absent.
	Before json.RawMessage `json:"before,omitempty"`
	// Wrote lists the values that the field may have been given, the latest
	// last: the value before a change whose writer may have died during it, and
	// the value of that change.
	Wrote []json.RawMessage `json:"wrote"`
	// Order lists the names of a list's items before the change. A field with an
	// order records nothing else; restored items return to this order.
	Order []string `json:"order,omitempty"`
	// Parts are the changed fields of a text that contains YAML. If the text is
	// no longer as written, they are reverted one by one.
	Parts []Field `json:"parts,omitempty"`
}

// String formats the path as people write it: spec.replicas,
// spec.template.spec.containers[discovery].env[PILOT_TRACE].
func (f Field) String() string {
	var b strings.Builder
	for i, s := range f.Path {
		switch {
		case s.item():
			fmt.Fprintf(&b, "[%s]", s.name())
		case i == 0:
			b.WriteString(s.name())
		default:
			b.WriteString("." + s.name())
		}
	}
	return b.String()
}

// value returns a field's value in the canonical form for comparisons, JSON with
// sorted keys; nil if the field is absent.
func value(v any) json.RawMessage {
	if v == nil {
		return nil
	}
	text, err := json.Marshal(v)
	if err != nil || string(text) == "null" {
		return nil // cannot fail: all values have JSON's types
	}
	return text
}

func same(a, b json.RawMessage) bool {
	return bytes.Equal(present(a), present(b))
}

// present turns null into nil.
func present(v json.RawMessage) json.RawMessage {
	if string(v) == "null" {
		return nil
	}
	return v
}

// parsed decodes a value into the types that objects hold.
func parsed(v json.RawMessage) (any, error) {
	if present(v) == nil {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(v))
	decoder.UseNumber()
	var out any
	if err := decoder.Decode(&out); err != nil {
		return nil, fmt.Errorf("value %.40q: %w", v, err)
	}
	return numbers(out), nil
}

// numbers converts JSON's numbers to those of unstructured objects: int64, or
// float64 if they are not whole.
func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64()
		return f
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	}
	return v
}

// Copy returns a deep copy of a value made of JSON's types.
func Copy(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = Copy(v[k])
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = Copy(v[i])
		}
		return out
	}
	return v
}

// Own returns the parts of an object that its writers own: all but status and
// the metadata that the API server maintains.
func Own(object map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range object {
		switch k {
		case "apiVersion", "kind", "status":
		case "metadata":
			meta, _ := v.(map[string]any)
			kept := map[string]any{}
			for _, name := range []string{"labels", "annotations"} {
				if m, ok := meta[name].(map[string]any); ok && len(m) > 0 {
					kept[name] = Copy(m)
				}
			}
			if len(kept) > 0 {
				out[k] = kept
			}
		default:
			out[k] = Copy(v)
		}
	}
	return out
}

// Equal reports whether two versions of an object are the same to their writers.
func Equal(a, b map[string]any) bool { return same(value(Own(a)), value(Own(b))) }

// named returns the items of a list by name and their names in order; false if
// the list is empty or the items lack unique names.
func named(v any) (map[string]any, []string, bool) {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return nil, nil, false
	}
	items, names := make(map[string]any, len(list)), make([]string, 0, len(list))
	for _, one := range list {
		m, _ := one.(map[string]any)
		name, _ := m[nameKey].(string)
		if name == "" || items[name] != nil {
			return nil, nil, false
		}
		items[name] = m
		names = append(names, name)
	}
	return items, names, true
}

// union returns the keys of both maps, sorted.
func union(a, b map[string]any) []string {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}
