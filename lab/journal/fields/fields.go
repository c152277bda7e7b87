// Package fields says in which fields two versions of a Kubernetes object
// differ, and takes such differences back in a third, the object as it is now,
// wherever nobody else has touched them since.
//
// It is pure: objects are the maps that client-go's unstructured objects hold.
// What the API server keeps for itself (status, and all metadata but labels and
// annotations) is not looked at.
//
// A list whose items all have a name of their own (containers, variables of an
// environment, webhooks) is taken for a map by that name; any other list is one
// value. A field that is null is one that is not there, as the API server has
// it.
package fields

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Step leads one level down: ".KEY" into a map, "@NAME" to the item of that
// name in a list.
type Step string

const (
	keyStep  = "."
	itemStep = "@"
	// nameKey is the key that items of a list go by.
	nameKey = "name"
)

func key(name string) Step  { return Step(keyStep + name) }
func item(name string) Step { return Step(itemStep + name) }

// item says that the step leads to an item of a list.
func (s Step) item() bool { return strings.HasPrefix(string(s), itemStep) }

// name is the step's key or item.
func (s Step) name() string {
	if s == "" {
		return ""
	}
	return string(s[1:])
}

// Field is one place of an object that was changed.
type Field struct {
	// Path leads to it.
	Path []Step `json:"path"`
	// There is how many steps of the path led somewhere before the change: what
	// is empty below them afterwards was made for the field alone.
	There int `json:"there"`
	// Kept is how many steps of the path lead somewhere after the change. Where
	// they lead nowhere any more, what the field was part of has gone.
	Kept int `json:"kept"`
	// Before is its value before the change; null or nothing: it was not there.
	Before json.RawMessage `json:"before,omitempty"`
	// Wrote are the values that it may have been given, the latest last: what
	// was there until a change that its writer did not live to see through, and
	// that change.
	Wrote []json.RawMessage `json:"wrote"`
	// Order are the names of a list's items before the change. A field with an
	// order is nothing else: when items come back, they come back in it.
	Order []string `json:"order,omitempty"`
	// Parts are the changed fields of a text that is YAML. Where the text is not
	// what was written any more, they are taken back one by one.
	Parts []Field `json:"parts,omitempty"`
}

// String is the path as people write it: spec.replicas,
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

// value is a field's value in the one form that values are compared in: JSON
// with sorted keys; nil where there is none.
func value(v any) json.RawMessage {
	if v == nil {
		return nil
	}
	text, err := json.Marshal(v)
	if err != nil || string(text) == "null" {
		return nil // of JSON's own types, which all can be written
	}
	return text
}

func same(a, b json.RawMessage) bool {
	return bytes.Equal(present(a), present(b))
}

// present turns null into nothing.
func present(v json.RawMessage) json.RawMessage {
	if string(v) == "null" {
		return nil
	}
	return v
}

// parsed is a value as objects hold it.
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

// numbers turns JSON's numbers into those of unstructured objects: int64, or
// float64 where they are not whole.
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

// Copy is a deep copy of JSON's own types.
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

// Own is what of an object is its writers' own: all but status and the metadata
// that the API server keeps.
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

// Equal says that two versions of an object are the same to their writers.
func Equal(a, b map[string]any) bool { return same(value(Own(a)), value(Own(b))) }

// named are the items of a list by name, and their names in order; false if
// not all have a name of their own, or there are none.
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

// union are the keys of both, sorted.
func union(a, b map[string]any) []string {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}
