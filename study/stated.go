package study

import "github.com/invopop/jsonschema"

// statedValue is a section in which a study states something of figures that have
// presets, as the mesh that it is to be priced for.
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

func (v statedValue[T]) schema() *jsonschema.Schema { return v.presets().schema() }

// presets is the section as it is where the study states nothing in it.
func (v statedValue[T]) presets() object {
	m := v.preset()
	return v.fields(&m)
}
