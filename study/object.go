package study

import (
	"fmt"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// value is a kind of field: how it is read from a file, written to one, and
// described to an editor. A field's value holds where its result goes.
type value interface {
	decode(d *decoder, n *node)
	encode() *node // nil: leave the field out
	schema() *jsonschema.Schema
}

// decoder collects what is wrong.
type decoder struct {
	root *node
	kind Kind
	errs Errors
	// begun says that a run has begun with the study ([ParseAgain]), stored that all that
	// is left to do is to tell of it ([ParseStored]).
	begun, stored bool
	// repriced says that flags take section money away, or state other prices.
	repriced bool
}

// fail notes an error at a place.
func (d *decoder) fail(pos Pos, code Code, hint, format string, args ...any) {
	d.complain(pos, complain(code, hint, format, args...))
}

// complain notes an error in a piece of text that is at this place.
func (d *decoder) complain(pos Pos, e *Error) {
	e.Pos = pos
	d.errs = append(d.errs, e)
}

// text returns a scalar's text.
func (d *decoder) text(n *node) (string, bool) {
	if n.kind != scalar {
		d.fail(n.pos, CodeType, "", "a single value is expected here, not %s", n.what())
		return "", false
	}
	return n.text, true
}

// pos is the place of a value by its path. Of a field that the file does not have it is
// the place of the nearest field above.
func (d *decoder) pos(path ...any) Pos {
	n, at, name := d.root, d.root.pos, ""
	for _, step := range path {
		var next *node
		switch step := step.(type) {
		case string:
			name = joinField(name, step)
			if n != nil {
				next = n.get(step)
			}
		case int:
			name += fmt.Sprintf("[%d]", step)
			if n != nil && n.kind == sequence && step >= 0 && step < len(n.values) {
				next = n.values[step]
			}
		}
		if n = next; n != nil {
			at = n.pos
		}
	}
	at.Field = name
	return at
}

// joinField is the path of a field of the mapping at another path.
func joinField(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// field is a named part of a mapping.
type field struct {
	name     string
	doc      string
	value    value
	required bool
	kinds    []Kind // the only ones it is for; nil for all
}

// object is a mapping with fixed fields.
type object struct {
	name   string // for messages: "blocks", "the study"
	fields []field
	flow   bool // written on one line
}

func (o object) decode(d *decoder, n *node) {
	if n.kind != mapping {
		d.fail(n.pos, CodeType, "its fields are "+strings.Join(o.names(), ", "), "%s must be a mapping, not %s", o.name, n.what())
		return
	}
	for i, k := range n.keys {
		f := o.find(k.name)
		if f == nil {
			d.fail(k.pos, CodeUnknown, errs.Suggest(k.name, o.names()), "unknown field %q in %s", clip(k.name, 40), o.name)
			continue
		}
		if d.notHere(f.name, f.kinds, k.pos) {
			continue
		}
		if n.values[i].kind == null {
			d.fail(k.pos, CodeMissing, "give it a value or leave it out", "%s is empty", k.name)
			continue
		}
		f.value.decode(d, n.values[i])
	}
	for _, f := range o.fields {
		if f.required && n.get(f.name) == nil {
			d.fail(n.pos, CodeMissing, f.doc, "%s lacks the field %q", o.name, f.name)
		}
	}
}

func (o object) names() []string {
	out := make([]string, len(o.fields))
	for i, f := range o.fields {
		out[i] = f.name
	}
	return out
}

// of returns the object without the fields of other kinds, also within it.
func (o object) of(p Kind) object {
	var kept []field
	for _, f := range o.fields {
		if f.kinds == nil || slices.Contains(f.kinds, p) {
			if inner, ok := f.value.(object); ok {
				f.value = inner.of(p)
			}
			kept = append(kept, f)
		}
	}
	o.fields = kept
	return o
}

// placed is a field of a kind, and where it stands in a file.
type placed struct {
	field field
	in    string // the field whose mapping it is part of; "" for the file itself
	after string // the field that it follows; "" for the mapping's first
}

// place puts a kind's field where it stands.
func (o *object) place(p placed) {
	if p.in != "" {
		f := o.find(p.in)
		inner := f.value.(object)
		inner.place(placed{field: p.field, after: p.after})
		f.value = inner
		return
	}
	at := slices.IndexFunc(o.fields, func(f field) bool { return f.name == p.after }) + 1
	o.fields = slices.Insert(o.fields, at, p.field)
}

func (o object) find(name string) *field {
	for i := range o.fields {
		if o.fields[i].name == name {
			return &o.fields[i]
		}
	}
	return nil
}

func (o object) encode() *node {
	out := &node{kind: mapping}
	if o.flow {
		out.style = styleFlow
	}
	for _, f := range o.fields {
		if v := f.value.encode(); v != nil {
			out.set(f.name, Pos{}, v)
		}
	}
	if len(out.keys) == 0 {
		return nil
	}
	return out
}

func (o object) schema() *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object", Properties: jsonschema.NewProperties(), AdditionalProperties: jsonschema.FalseSchema}
	for _, f := range o.fields {
		p := f.value.schema()
		if p.Description == "" {
			p.Description = f.doc
		}
		s.Properties.Set(f.name, p)
		if f.required {
			s.Required = append(s.Required, f.name)
		}
	}
	return s
}

// listValue is a list of values of one kind.
type listValue[T any] struct {
	to      *[]T
	element func(*T) value
	least   int
	flow    bool
}

func (v listValue[T]) decode(d *decoder, n *node) {
	if n.kind != sequence {
		d.fail(n.pos, CodeType, "write a list in brackets, as [a, b], or its entries on lines that begin with a dash", "a list is expected here, not %s", n.what())
		return
	}
	if len(n.values) < v.least {
		d.fail(n.pos, CodeMissing, "", "the list is empty")
		return
	}
	out := make([]T, len(n.values))
	for i, item := range n.values {
		if item.kind == null {
			d.fail(item.pos, CodeMissing, "", "an entry of the list is empty")
			continue
		}
		v.element(&out[i]).decode(d, item)
	}
	if *v.to = out; len(out) == 0 {
		*v.to = nil
	}
}

func (v listValue[T]) encode() *node {
	if len(*v.to) == 0 {
		return nil
	}
	out := &node{kind: sequence}
	if v.flow {
		out.style = styleFlow
	}
	for i := range *v.to {
		out.values = append(out.values, v.element(&(*v.to)[i]).encode())
	}
	return out
}

func (v listValue[T]) schema() *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "array", Items: v.element(new(T)).schema()}
	if v.least > 0 {
		least := uint64(v.least)
		s.MinItems = &least
	}
	return s
}

// statedValue is an optional section whose fields have defaults once it is there.
type statedValue[T any] struct {
	to     **T
	preset func() T
	fields func(*T) object
}

func (v statedValue[T]) decode(d *decoder, n *node) {
	m := v.preset()
	before := len(d.errs)
	v.fields(&m).decode(d, n)
	if len(d.errs) == before {
		*v.to = &m
	}
}

func (v statedValue[T]) encode() *node {
	if *v.to == nil {
		return nil
	}
	m := **v.to
	return v.fields(&m).encode()
}

func (v statedValue[T]) schema() *jsonschema.Schema {
	m := v.preset()
	return v.fields(&m).schema()
}

// partValue is a mapping that need not be there.
type partValue[T any] struct {
	to     **T
	object func(*T) object
}

func optional[T any](to **T, o func(*T) object) value { return partValue[T]{to, o} }

func (v partValue[T]) decode(d *decoder, n *node) {
	*v.to = new(T)
	v.object(*v.to).decode(d, n)
}

func (v partValue[T]) encode() *node {
	if *v.to == nil {
		return nil
	}
	if n := v.object(*v.to).encode(); n != nil {
		return n
	}
	return &node{kind: mapping, style: styleFlow}
}

func (v partValue[T]) schema() *jsonschema.Schema { return v.object(new(T)).schema() }
