package fields

import (
	"encoding/json"
	"slices"

	"sigs.k8s.io/yaml"
)

// State is the result of reverting a field.
type State string

const (
	// Back: the field was as written, and has its original value again.
	Back State = "back"
	// Already: the field already had its original value.
	Already State = "already"
	// Foreign: the field is neither as written nor as before, so someone else
	// changed it. It is left alone.
	Foreign State = "foreign"
)

// Answer is the result for one field.
type Answer struct {
	Field Field
	State State
	// Now is the value before anything was reverted; nil if it was absent.
	Now json.RawMessage
}

// Undo reverts the fields in a copy of an object, and returns the result for
// each field.
func Undo(live map[string]any, fields []Field) (map[string]any, []Answer) {
	out, _ := Copy(live).(map[string]any)
	if out == nil {
		out = map[string]any{}
	}
	// A value that was a scalar in one change and a map in another appears at
	// both paths. The higher one comes first, after which the lower one needs no
	// action.
	fields = slices.Clone(fields)
	slices.SortStableFunc(fields, func(a, b Field) int { return len(a.Path) - len(b.Path) })
	var answers []Answer
	for _, f := range fields {
		if f.Order == nil {
			answers = append(answers, undoOne(out, f)...)
		}
	}
	for _, f := range fields {
		if f.Order != nil {
			reorder(out, f)
		}
	}
	for i, a := range answers {
		if a.State != Foreign {
			continue
		}
		if v, blocked := get(out, a.Field.Path); !blocked && same(value(v), a.Field.Before) {
			answers[i].State = Already // reverted along with the rest
		}
	}
	return out, answers
}

// undoOne reverts one field in out; in a text that is not as written, part by
// part.
func undoOne(out map[string]any, f Field) []Answer {
	v, blocked := get(out, f.Path)
	now := value(v)
	answer := Answer{Field: f, Now: now, State: Foreign}
	wrote := slices.ContainsFunc(f.Wrote, func(w json.RawMessage) bool { return same(now, w) })
	switch {
	case blocked:
	case same(now, f.Before):
		answer.State = Already
	case wrote && reaches(out, f.Path[:max(0, min(f.Kept, len(f.Path)))]):
		before, err := parsed(f.Before)
		if err != nil {
			break
		}
		answer.State = Back
		put(out, f.Path, before)
		if before == nil {
			prune(out, f.Path, f.There)
		}
	case len(f.Parts) > 0:
		if parts := undoText(out, v, f); parts != nil {
			return parts
		}
	}
	return []Answer{answer}
}

// undoText reverts the parts of a text that someone else changed too; it returns
// nil if the text is no longer YAML.
func undoText(out map[string]any, live any, f Field) []Answer {
	content, ok := textMap(live)
	if !ok {
		return nil
	}
	restored, answers := Undo(content, f.Parts)
	back := false
	for i := range answers {
		back = back || answers[i].State == Back
		answers[i].Field.Path = append(slices.Clone(f.Path), answers[i].Field.Path...)
	}
	if back {
		text, err := yaml.Marshal(restored)
		if err != nil {
			return nil
		}
		put(out, f.Path, string(text))
	}
	return answers
}

// Over returns the fields to record for an object that is about to change from
// live to wanted, given the recorded fields old: enough for [Undo] to revert it
// whether or not the change takes place.
//
// What someone else changed in the meantime becomes the value to restore: a
// field's original value is its value in the object with the old fields
// reverted.
func Over(old []Field, live, wanted map[string]any, texts ...[]Step) []Field {
	base, _ := Undo(live, old)
	return over(old, live, base, wanted, Diff(base, wanted, texts...))
}

// over adds to the fields of a change from base to wanted what old records about
// live.
func over(old []Field, live, base, wanted map[string]any, fields []Field) []Field {
	find := func(o Field) int {
		return slices.IndexFunc(fields, func(f Field) bool {
			return (f.Order == nil) == (o.Order == nil) && slices.Equal(f.Path, o.Path)
		})
	}
	for _, o := range old {
		i := find(o)
		if o.Order != nil {
			if i < 0 {
				fields = append(fields, o)
			}
			continue
		}
		v, blocked := get(live, o.Path)
		now := value(v)
		if blocked || !slices.ContainsFunc(o.Wrote, func(w json.RawMessage) bool { return same(now, w) }) {
			continue
		}
		if i < 0 { // this change restores it
			before, _ := get(base, o.Path)
			o.Before, o.Wrote = value(before), []json.RawMessage{now}
			fields = append(fields, o)
			continue
		}
		f := &fields[i]
		f.Kept = min(f.Kept, o.Kept)
		if same(f.Wrote[0], now) {
			continue
		}
		f.Wrote = append([]json.RawMessage{now}, f.Wrote...)
		if len(f.Parts) > 0 && len(o.Parts) > 0 {
			f.Parts = overText(o.Parts, v, wanted, *f)
		}
	}
	return fields
}

// overText does for the parts of a text what over does for an object.
func overText(old []Field, live any, wanted map[string]any, f Field) []Field {
	want, _ := get(wanted, f.Path)
	l, okL := textMap(live)
	w, okW := textMap(want)
	if !okL || !okW {
		return f.Parts
	}
	base, _ := Undo(l, old)
	return over(old, l, base, w, f.Parts)
}

// get follows a path. v is nil if the path ends early; blocked reports that a
// value of another type is in the way.
func get(node any, path []Step) (v any, blocked bool) {
	for _, s := range path {
		switch at := node.(type) {
		case nil:
			return nil, false
		case map[string]any:
			if s.item() {
				return nil, true
			}
			node = at[s.name()]
		case []any:
			items, _, ok := named(at)
			if len(at) > 0 && !ok || !s.item() {
				return nil, true
			}
			node = items[s.name()]
		default:
			return nil, true
		}
	}
	return node, false
}

func reaches(node any, path []Step) bool {
	v, blocked := get(node, path)
	return !blocked && (v != nil || len(path) == 0)
}

// put sets a value, creating its parents; nil removes it. It returns the node,
// which is a new one if a list has grown or shrunk.
func put(node any, path []Step, v any) any {
	if len(path) == 0 {
		return v
	}
	s, rest := path[0], path[1:]
	if s.item() {
		return putItem(node, s.name(), rest, v)
	}
	m, ok := node.(map[string]any)
	if !ok {
		if v == nil {
			return node
		}
		m = map[string]any{}
	}
	if child := put(m[s.name()], rest, v); child == nil {
		delete(m, s.name())
	} else {
		m[s.name()] = child
	}
	return m
}

func putItem(node any, name string, rest []Step, v any) any {
	list, _ := node.([]any)
	for i := range list {
		if m, _ := list[i].(map[string]any); m[nameKey] == any(name) {
			child := put(list[i], rest, v)
			if child == nil {
				return slices.Delete(list, i, i+1)
			}
			list[i] = child
			return list
		}
	}
	if v == nil {
		return node
	}
	return append(list, put(map[string]any{nameKey: name}, rest, v))
}

// prune removes what is empty on the way to a removed field, down to the steps
// that existed before the field.
func prune(out map[string]any, path []Step, there int) {
	for n := len(path) - 1; n > max(there, 0); n-- { // a stored record may contain any number
		v, blocked := get(out, path[:n])
		if blocked || !hollow(v, path[n-1]) {
			return
		}
		put(out, path[:n], nil)
	}
}

// hollow reports whether a map or list is empty, or an item has only its name.
func hollow(v any, s Step) bool {
	switch v := v.(type) {
	case map[string]any:
		return len(v) == 0 || s.item() && len(v) == 1 && v[nameKey] != nil
	case []any:
		return len(v) == 0
	}
	return false
}

// reorder restores the order of a list's items; newer items follow.
func reorder(out map[string]any, f Field) {
	v, blocked := get(out, f.Path)
	items, names, ok := named(v)
	if blocked || !ok {
		return
	}
	var sorted []any
	for _, name := range f.Order {
		if items[name] != nil {
			sorted = append(sorted, items[name])
		}
	}
	for _, name := range names {
		if !slices.Contains(f.Order, name) {
			sorted = append(sorted, items[name])
		}
	}
	put(out, f.Path, sorted)
}

// Seen adds to the written values of each field its value in an object that was
// just written: the API server fills in defaults, and admission may change
// anything. The second result reports whether anything differed.
func Seen(all []Field, written map[string]any) ([]Field, bool) {
	differ := false
	out := slices.Clone(all)
	for i, f := range out {
		if f.Order != nil {
			continue
		}
		v, blocked := get(written, f.Path)
		now := value(v)
		if blocked || same(now, f.Before) || slices.ContainsFunc(f.Wrote, func(w json.RawMessage) bool { return same(now, w) }) {
			continue
		}
		differ = true
		out[i].Wrote = append(slices.Clone(f.Wrote), now)
	}
	return out, differ
}

// Redo sets fields to the values last written, and changes nothing else in the
// object.
func Redo(object map[string]any, all []Field) error {
	for _, f := range all {
		if f.Order != nil || len(f.Wrote) == 0 {
			continue
		}
		v, err := parsed(f.Wrote[len(f.Wrote)-1])
		if err != nil {
			return err
		}
		put(object, f.Path, v)
		if v == nil {
			prune(object, f.Path, f.Kept)
		}
	}
	return nil
}
