package study

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"

	"github.com/invopop/jsonschema"

	"github.com/meshtrial/meshtrial/internal/lazyregexp"
)

// SchemaID identifies the published JSON Schema.
const SchemaID = "https://raw.githubusercontent.com/meshtrial/meshtrial/main/docs/study.schema.json"

// Schema returns the JSON Schema of study files, for editors. It is complete on names and levels;
// [Parse] also checks combinations.
func Schema() ([]byte, error) {
	s := root(defaultsOf(DataPlane)).Schema()
	s.Version = jsonschema.Version
	s.ID = SchemaID
	s.Title = "meshtrial study"
	s.Description = "A file that asks one question of a mesh: what varies, what is measured, what it is compared with."
	s.Definitions = jsonschema.Definitions{}
	for _, f := range allFactors() {
		s.Definitions[f.Name] = f.schema()
	}
	anyScalar(s)
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, b.Bytes(), "", "  "); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// anyScalar makes the schema accept scalars as [Parse] does, which reads their text: 3, "3" and '3'
// are one level, though YAML has them as a number and two strings. Numbers and booleans also accept
// their quoted forms, and strings also accept numbers and booleans with the same text.
func anyScalar(s *jsonschema.Schema) {
	types := func(all ...any) { s.Type, s.Extras = "", map[string]any{"type": all} }
	switch {
	case s.Type == "integer":
		types(s.Type, "string")
		s.Pattern = reWhole.String()
	case s.Type == "number":
		types(s.Type, "string")
		s.Pattern = reNumber.String()
	case s.Type == "boolean":
		types(s.Type, "string")
		s.Pattern = "^(true|false)$"
	case s.Type == "string" && s.Enum != nil:
		for _, level := range s.Enum {
			if other := native(level.(string)); other != nil {
				s.Type, s.Enum = "", append(s.Enum, other)
			}
		}
	case s.Type == "string" && s.Pattern == "":
		types(s.Type, "number", "boolean")
	case s.Type == "string":
		switch matches := regexp.MustCompile(s.Pattern).MatchString; {
		case matches("7.5"):
			types(s.Type, "number")
		case matches("7"):
			types(s.Type, "integer")
		case matches("0"): // a zero duration needs no unit
			types(s.Type, "integer")
			s.Minimum, s.Maximum = "0", "0"
		}
	}
	for _, inner := range slices.Concat(s.AnyOf, slices.Collect(maps.Values(s.Definitions)), []*jsonschema.Schema{s.Items, s.AdditionalProperties}) {
		if inner != nil {
			anyScalar(inner)
		}
	}
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		anyScalar(p.Value)
	}
}

var reWhole = lazyregexp.New(`^[0-9]+(_[0-9]+)*$`)

// native returns the value of an unquoted YAML scalar, nil if that is a string.
func native(text string) any {
	switch {
	case text == "true" || text == "false":
		return text == "true"
	case reNumber.MatchString(text):
		return json.Number(text)
	}
	return nil
}
