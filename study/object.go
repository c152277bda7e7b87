package study

import (
	"fmt"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// Value describes a type of field: how to decode, encode and document it. A Value holds the
// destination of the result.
type Value interface {
	Decode(d *Decoder, n *Node)
	Encode() *Node // nil: omit the field
	Schema() *jsonschema.Schema
}

// Decoder collects errors.
type Decoder struct {
	Root *Node
	kind Kind
	Errs Errors
	// begun means that a run has begun with the study ([ParseAgain]), Stored that the study is only
	// read to report on its run ([ParseStored]).
	begun, Stored bool
	// repriced means that flags remove section money or change its prices.
	repriced bool
}

// Fail records an error at a position.
func (d *Decoder) Fail(pos Pos, code Code, hint, format string, args ...any) {
	d.Complain(pos, Complain(code, hint, format, args...))
}

// Complain records an error in the piece of text at this position.
func (d *Decoder) Complain(pos Pos, e *Error) {
	e.Pos = pos
	d.Errs = append(d.Errs, e)
}

// Text returns a scalar's text.
func (d *Decoder) Text(n *Node) (string, bool) {
	if n.Kind != Scalar {
		d.Fail(n.Pos, CodeType, "", "expected a single value, not %s", n.What())
		return "", false
	}
	return n.Text, true
}

// Pos returns the position of a value by its path. For a field that the file does not have, it
// returns the position of the nearest ancestor.
func (d *Decoder) Pos(path ...any) Pos {
	n, at, name := d.Root, d.Root.Pos, ""
	for _, step := range path {
		var next *Node
		switch step := step.(type) {
		case string:
			name = joinField(name, step)
			if n != nil {
				next = n.Get(step)
			}
		case int:
			name += fmt.Sprintf("[%d]", step)
			if n != nil && n.Kind == Sequence && step >= 0 && step < len(n.Values) {
				next = n.Values[step]
			}
		}
		if n = next; n != nil {
			at = n.Pos
		}
	}
	at.Field = name
	return at
}

// joinField returns the path of a field of the mapping at another path.
func joinField(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// Field is a named field of a mapping.
type Field struct {
	Name     string
	Doc      string
	Value    Value
	Required bool
	kinds    []Kind // the kinds that have it; nil for all
}

// Object is a mapping with fixed fields.
type Object struct {
	Name   string // for messages: "blocks", "the study"
	Fields []Field
	Flow   bool // written on one line
}

func (o Object) Decode(d *Decoder, n *Node) {
	if n.Kind != Mapping {
		d.Fail(n.Pos, CodeType, "its fields are "+strings.Join(o.names(), ", "), "%s must be a mapping, not %s", o.Name, n.What())
		return
	}
	for i, k := range n.Keys {
		f := o.find(k.Name)
		if f == nil {
			d.Fail(k.Pos, CodeUnknown, errs.Suggest(k.Name, o.names()), "unknown field %q in %s", Clip(k.Name, 40), o.Name)
			continue
		}
		if d.notHere(f.Name, f.kinds, k.Pos) {
			continue
		}
		if n.Values[i].Kind == Null {
			d.Fail(k.Pos, CodeMissing, "give it a value or leave it out", "%s is empty", k.Name)
			continue
		}
		f.Value.Decode(d, n.Values[i])
	}
	for _, f := range o.Fields {
		if f.Required && n.Get(f.Name) == nil {
			d.Fail(n.Pos, CodeMissing, f.Doc, "%s lacks the field %q", o.Name, f.Name)
		}
	}
}

func (o Object) names() []string {
	out := make([]string, len(o.Fields))
	for i, f := range o.Fields {
		out[i] = f.Name
	}
	return out
}

// of returns the object without the fields of other kinds, at any depth.
func (o Object) of(p Kind) Object {
	var kept []Field
	for _, f := range o.Fields {
		if f.kinds == nil || slices.Contains(f.kinds, p) {
			if inner, ok := f.Value.(Object); ok {
				f.Value = inner.of(p)
			}
			kept = append(kept, f)
		}
	}
	o.Fields = kept
	return o
}

// Placed is a field of a kind and its location in a file.
type Placed struct {
	Field Field
	In    string // the field whose mapping contains it; "" for the file itself
	After string // the preceding field; "" if first in the mapping
}

// place inserts a kind's field at its location.
func (o *Object) place(p Placed) {
	if p.In != "" {
		f := o.find(p.In)
		inner := f.Value.(Object)
		inner.place(Placed{Field: p.Field, After: p.After})
		f.Value = inner
		return
	}
	at := slices.IndexFunc(o.Fields, func(f Field) bool { return f.Name == p.After }) + 1
	o.Fields = slices.Insert(o.Fields, at, p.Field)
}

func (o Object) find(name string) *Field {
	for i := range o.Fields {
		if o.Fields[i].Name == name {
			return &o.Fields[i]
		}
	}
	return nil
}

func (o Object) Encode() *Node {
	out := &Node{Kind: Mapping}
	if o.Flow {
		out.Style = StyleFlow
	}
	for _, f := range o.Fields {
		if v := f.Value.Encode(); v != nil {
			out.Set(f.Name, Pos{}, v)
		}
	}
	if len(out.Keys) == 0 {
		return nil
	}
	return out
}

func (o Object) Schema() *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object", Properties: jsonschema.NewProperties(), AdditionalProperties: jsonschema.FalseSchema}
	for _, f := range o.Fields {
		p := f.Value.Schema()
		if p.Description == "" {
			p.Description = f.Doc
		}
		s.Properties.Set(f.Name, p)
		if f.Required {
			s.Required = append(s.Required, f.Name)
		}
	}
	return s
}

// ListValue is a list of values of one type.
type ListValue[T any] struct {
	To      *[]T
	Element func(*T) Value
	Least   int
	Flow    bool
}

func (v ListValue[T]) Decode(d *Decoder, n *Node) {
	if n.Kind != Sequence {
		d.Fail(n.Pos, CodeType, "write a list in brackets, [a, b], or one entry per line after a dash", "expected a list, not %s", n.What())
		return
	}
	if len(n.Values) < v.Least {
		d.Fail(n.Pos, CodeMissing, "", "the list is empty")
		return
	}
	out := make([]T, len(n.Values))
	for i, item := range n.Values {
		if item.Kind == Null {
			d.Fail(item.Pos, CodeMissing, "", "the list has an empty entry")
			continue
		}
		v.Element(&out[i]).Decode(d, item)
	}
	if *v.To = out; len(out) == 0 {
		*v.To = nil
	}
}

func (v ListValue[T]) Encode() *Node {
	if len(*v.To) == 0 {
		return nil
	}
	out := &Node{Kind: Sequence}
	if v.Flow {
		out.Style = StyleFlow
	}
	for i := range *v.To {
		out.Values = append(out.Values, v.Element(&(*v.To)[i]).Encode())
	}
	return out
}

func (v ListValue[T]) Schema() *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "array", Items: v.Element(new(T)).Schema()}
	if v.Least > 0 {
		least := uint64(v.Least)
		s.MinItems = &least
	}
	return s
}

// Stated returns an optional section whose fields have defaults once it is present.
func Stated[T any](to **T, preset func() T, fields func(*T) Object) Value {
	return statedValue[T]{to, preset, fields}
}

// statedValue is an optional section whose fields have defaults once it is present.
type statedValue[T any] struct {
	to     **T
	preset func() T
	fields func(*T) Object
}

func (v statedValue[T]) Decode(d *Decoder, n *Node) {
	m := v.preset()
	before := len(d.Errs)
	v.fields(&m).Decode(d, n)
	if len(d.Errs) == before {
		*v.to = &m
	}
}

func (v statedValue[T]) Encode() *Node {
	if *v.to == nil {
		return nil
	}
	m := **v.to
	if n := v.fields(&m).Encode(); n != nil {
		return n
	}
	return &Node{Kind: Mapping, Style: StyleFlow}
}

func (v statedValue[T]) Schema() *jsonschema.Schema {
	m := v.preset()
	return v.fields(&m).Schema()
}

// Optional returns an optional section whose fields are zero by default once it is present.
func Optional[T any](to **T, fields func(*T) Object) Value {
	return Stated(to, func() (zero T) { return zero }, fields)
}
