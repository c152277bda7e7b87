package fields

import (
	"encoding/json"
	"slices"

	"sigs.k8s.io/yaml"
)

// Diff lists the fields in which two versions of an object differ. texts are
// the paths of texts that contain YAML, such as the mesh configuration in its
// ConfigMap.
func Diff(before, after map[string]any, texts ...[]Step) []Field {
	d := differ{texts: texts}
	d.maps(place{}, Own(before), Own(after))
	return d.found
}

// Text returns the path of a text in an object, for [Diff].
func Text(keys ...string) []Step {
	var path []Step
	for _, k := range keys {
		path = append(path, key(k))
	}
	return path
}

type differ struct {
	texts [][]Step
	found []Field
}

// place is a location where two versions are compared: its path, and the number
// of steps that exist before and after.
type place struct {
	path        []Step
	there, kept int
}

func (p place) below(s Step) place {
	p.path = append(slices.Clone(p.path), s)
	return p
}

func (d *differ) maps(p place, before, after map[string]any) {
	for _, k := range union(before, after) {
		if k == nameKey && len(p.path) > 0 && p.path[len(p.path)-1].item() {
			continue // its key is already part of the step
		}
		d.values(p.below(key(k)), before[k], after[k])
	}
}

func (d *differ) values(p place, before, after any) {
	if same(value(before), value(after)) {
		return
	}
	if before != nil {
		p.there = len(p.path)
	}
	if after != nil {
		p.kept = len(p.path)
	}
	if b, a, ok := bothMaps(p, before, after); ok {
		d.maps(p, b, a)
		return
	}
	if b, a, ok := bothNamed(before, after); ok {
		d.lists(p, b, a)
		return
	}
	f := Field{Path: p.path, There: p.there, Kept: p.kept, Before: value(before), Wrote: []json.RawMessage{value(after)}}
	if slices.ContainsFunc(d.texts, func(t []Step) bool { return slices.Equal(t, p.path) }) {
		f.Parts = textDiff(before, after)
	}
	d.found = append(d.found, f)
}

// namedList is a list indexed by the names of its items.
type namedList struct {
	items map[string]any
	names []string
}

func (d *differ) lists(p place, before, after namedList) {
	for _, name := range union(before.items, after.items) {
		d.values(p.below(item(name)), before.items[name], after.items[name])
	}
	if len(before.names) > 0 && !slices.Equal(before.names, after.names) {
		d.found = append(d.found, Field{Path: p.path, There: p.there, Kept: p.kept, Order: before.names})
	}
}

// bothMaps returns two maps, one of which may be missing. An empty map compared
// with nothing is a value, and so is an item that has only a name.
func bothMaps(p place, before, after any) (b, a map[string]any, ok bool) {
	b, isB := before.(map[string]any)
	a, isA := after.(map[string]any)
	least := 0
	if len(p.path) > 0 && p.path[len(p.path)-1].item() {
		least = 1
	}
	return b, a, isB && isA || isB && after == nil && len(b) > least || isA && before == nil && len(a) > least
}

// bothNamed returns two lists by name, one of which may be missing.
func bothNamed(before, after any) (b, a namedList, ok bool) {
	var isB, isA bool
	b.items, b.names, isB = named(before)
	a.items, a.names, isA = named(after)
	return b, a, isB && isA || isB && after == nil || isA && before == nil
}

// textDiff compares two texts as YAML. It returns nil unless both are texts
// that contain a map.
func textDiff(before, after any) []Field {
	b, okB := textMap(before)
	a, okA := textMap(after)
	if !okB || !okA {
		return nil
	}
	var d differ
	d.maps(place{}, b, a)
	return d.found
}

// textMap parses a text that contains a YAML map; a missing or empty text is an
// empty map.
func textMap(v any) (map[string]any, bool) {
	if v == nil {
		return map[string]any{}, true
	}
	text, ok := v.(string)
	if !ok {
		return nil, false
	}
	var out any
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		return nil, false
	}
	if out == nil {
		return map[string]any{}, true
	}
	// Convert through JSON, so that numbers and maps have uniform types.
	clean, err := parsed(value(out))
	if err != nil {
		return nil, false
	}
	m, ok := clean.(map[string]any)
	return m, ok
}
