package report

import (
	"bytes"
	"encoding/json"
	"maps"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"

	"github.com/meshtrial/meshtrial/observe/profile"
	"github.com/meshtrial/meshtrial/testing/golden"
	"github.com/meshtrial/meshtrial/testing/must"
)

const module = "github.com/meshtrial/meshtrial"

// TestDocumentsSchema checks that the input of the page's generated types
// matches what the encoder writes.
func TestDocumentsSchema(t *testing.T) {
	golden.File(t, filepath.Join("..", "ui", "web", "documents.schema.json"), documentsSchema(t))
}

// documentsSchema describes the input document of the HTML page.
func documentsSchema(t *testing.T) []byte {
	t.Helper()
	names := map[string]reflect.Type{}
	r := &jsonschema.Reflector{Anonymous: true,
		Mapper: func(of reflect.Type) *jsonschema.Schema {
			if of == reflect.TypeFor[json.RawMessage]() { // a chart's flame graph
				return &jsonschema.Schema{Ref: "#/$defs/View"}
			}
			return nil
		},
		Namer: func(of reflect.Type) string {
			if other, ok := names[of.Name()]; ok && other != of && of.PkgPath() != "" {
				t.Fatalf("the page would call both %v and %v %s", other, of, of.Name())
			}
			names[of.Name()] = of
			return nameOf(of)
		},
	}
	types := []reflect.Type{reflect.TypeFor[Page](), reflect.TypeFor[profile.View]()} // a chart refers to the view
	for dir := range packagesOf(types...) {
		must.OK(t, r.AddGoComments(module+"/report", dir, jsonschema.WithFullComment()))
	}
	all := &jsonschema.Schema{Version: jsonschema.Version, Title: "PageDocument", Description: "What the page is given.", Definitions: jsonschema.Definitions{},
		AnyOf: []*jsonschema.Schema{{Ref: "#/$defs/Page"}}}
	for _, of := range types {
		maps.Copy(all.Definitions, r.ReflectFromType(of).Definitions)
	}
	n := nulls{defs: all.Definitions, seen: map[reflect.Type]bool{}}
	for _, of := range types {
		n.admit(nil, of)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	must.OK(t, encoder.Encode(all))
	return out.Bytes()
}

// nameOf returns the page's name for a type.
func nameOf(of reflect.Type) string { return UpperFirst(of.Name()) }

// packagesOf returns the folders of this module whose types the documents
// contain.
func packagesOf(types ...reflect.Type) map[string]bool {
	dirs, seen := map[string]bool{}, map[reflect.Type]bool{}
	var visit func(reflect.Type)
	visit = func(of reflect.Type) {
		if seen[of] {
			return
		}
		seen[of] = true
		if dir, ok := strings.CutPrefix(of.PkgPath(), module); ok {
			dirs[filepath.Join("..", filepath.FromSlash(dir))] = true
		}
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
			visit(of.Elem())
		case reflect.Struct:
			for i := range of.NumField() {
				visit(of.Field(i).Type)
			}
		}
	}
	for _, of := range types {
		visit(of)
	}
	return dirs
}

// nulls permits null where the encoder writes it, which the reflector omits:
// for lists, maps and pointers that are nil and not omitted then.
type nulls struct {
	defs jsonschema.Definitions
	seen map[reflect.Type]bool
}

func (n nulls) admit(s *jsonschema.Schema, of reflect.Type) {
	if of.PkgPath() != "" {
		if n.seen[of] {
			return
		}
		n.seen[of] = true
		if s = n.defs[nameOf(of)]; s == nil { // a number or text under another name
			return
		}
	}
	switch of.Kind() {
	case reflect.Pointer:
		n.admit(s, of.Elem())
	case reflect.Slice, reflect.Array:
		n.admit(s.Items, of.Elem())
		s.Items = orNull(s.Items, of.Elem())
	case reflect.Map:
		n.admit(s.AdditionalProperties, of.Elem())
		s.AdditionalProperties = orNull(s.AdditionalProperties, of.Elem())
	case reflect.Struct:
		for i := range of.NumField() {
			field := of.Field(i)
			name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
			property, ok := s.Properties.Get(name)
			if !ok {
				continue
			}
			n.admit(property, field.Type)
			if property.Ref != "" {
				property.Description = "" // it would create a separate type
			}
			if !strings.Contains(options, "omitempty") {
				s.Properties.Set(name, orNull(property, field.Type))
			}
		}
	}
}

// orNull returns s, or null as an alternative if a value of the type can be
// nil.
func orNull(s *jsonschema.Schema, of reflect.Type) *jsonschema.Schema {
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		either := &jsonschema.Schema{AnyOf: []*jsonschema.Schema{s, {Type: "null"}}, Description: s.Description}
		s.Description = ""
		return either
	}
	return s
}
