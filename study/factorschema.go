package study

import (
	"encoding/json"
	"strconv"

	"github.com/invopop/jsonschema"
)

func (f Factor) description() string {
	out := f.Doc
	if f.Unit != "" {
		out += " Unit: " + f.Unit + "."
	}
	if f.Default == "" {
		return out
	}
	return out + " Default: " + f.defaultWords() + "."
}

// defaultWords are the default, and of levers what that usually is.
func (f Factor) defaultWords() string {
	if f.Usual == "" {
		return f.Default
	}
	return f.Default + " (usually " + f.Usual + ")"
}

// schema describes one level of a factor.
func (f Factor) schema() *jsonschema.Schema {
	s := &jsonschema.Schema{Title: f.Name, Description: f.description()}
	lever := f.Default == LevelInstalled
	switch {
	case has(f.Levels, "true") && lever:
		s.AnyOf = orInstalled(&jsonschema.Schema{Type: "boolean"})
		s.Default = f.Default
	case has(f.Levels, "true"):
		s.Type = "boolean"
		s.Default = f.Default == "true"
	case f.integer && lever:
		s.AnyOf = orInstalled(&jsonschema.Schema{Type: "integer", Minimum: json.Number(strconv.FormatInt(f.low, 10))})
		s.Default = f.Default
	case f.integer:
		s.Type = "integer"
		s.Minimum = json.Number(strconv.FormatInt(f.low, 10))
		s.Default = json.Number(f.Default)
	case f.plain != nil:
		s.AnyOf = f.plain.schema(f.Pattern)
		s.Default = f.Default
		if reNumber.MatchString(f.Default) {
			s.Default = json.Number(f.Default)
		}
	default:
		s.Type = "string"
		for _, level := range f.Levels {
			s.Enum = append(s.Enum, level)
		}
		if f.Levels == nil {
			s.Pattern = f.Pattern
		}
		if f.Default != "" {
			s.Default = f.Default
		}
	}
	for _, e := range f.Examples {
		if s.Type != "string" && reNumber.MatchString(e) {
			s.Examples = append(s.Examples, json.Number(e))
		} else {
			s.Examples = append(s.Examples, e)
		}
	}
	return s
}

// orInstalled describes a level that may be as installed too.
func orInstalled(level *jsonschema.Schema) []*jsonschema.Schema {
	return []*jsonschema.Schema{level, {Const: LevelInstalled}}
}

// schema describes a number, and what else may stand in its place.
func (p plainNumber) schema(pattern string) []*jsonschema.Schema {
	number := &jsonschema.Schema{Type: "number", ExclusiveMinimum: "0"}
	if p.max > 0 {
		number.Maximum = json.Number(strconv.FormatInt(p.max, 10))
	}
	if p.word != "" {
		return []*jsonschema.Schema{number, {Const: p.word}}
	}
	return []*jsonschema.Schema{number, {Type: "string", Pattern: pattern}}
}
