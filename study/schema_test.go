package study

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	validation "github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/testing/golden"
	"github.com/meshtrial/meshtrial/testing/must"
)

// The published schema is the one that this program generates.
func TestSchemaFileIsCurrent(t *testing.T) {
	want, err := Schema()
	must.OK(t, err)
	golden.File(t, "../docs/study.schema.json", want)
}

func TestSchemaKnowsEveryFactorAndField(t *testing.T) {
	data, err := Schema()
	must.OK(t, err)
	var s struct {
		Defs       map[string]any `json:"$defs"`
		Properties map[string]struct {
			Description string
			Properties  map[string]any
		} `json:"properties"`
	}
	must.OK(t, json.Unmarshal(data, &s))
	for _, f := range DataPlane.Factors() {
		if s.Defs[f.Name] == nil || s.Properties["factors"].Properties[f.Name] == nil || s.Properties["settings"].Properties[f.Name] == nil {
			t.Errorf("factor %s is not in the schema", f.Name)
		}
	}
	for _, f := range root(defaultsOf(DataPlane)).Fields {
		if s.Properties[f.Name].Description == "" {
			t.Errorf("field %s is not described", f.Name)
		}
	}
}

// Defaults and examples in the table of factors are canonical levels.
func TestFactorTable(t *testing.T) {
	for _, f := range DataPlane.Factors() {
		levels := append([]string{f.Default}, f.Levels...)
		if f.Doc == "" || f.Scope == "" || f.Levels == nil && f.Pattern == "" {
			t.Errorf("%s is not described", f.Name)
		}
		for _, level := range append(levels, f.Examples...) {
			if got, err := f.Canonical(level); err != nil || got != level {
				t.Errorf("%s: %q becomes %q (%v)", f.Name, level, got, err)
			}
		}
		if _, err := f.Canonical(""); err == nil {
			t.Errorf("%s has an empty level", f.Name)
		}
		if _, err := f.Canonical(NotApplicable); err == nil {
			t.Errorf("%s has the level %q", f.Name, NotApplicable)
		}
	}
}

func TestReferenceFileIsCurrent(t *testing.T) {
	golden.File(t, "../docs/study.md", []byte(Reference()))
}

// The example in the documentation is a study.
func TestReferenceExample(t *testing.T) {
	var example []string
	for line := range strings.Lines(Reference()) {
		if rest, ok := strings.CutPrefix(line, "    "); ok {
			example = append(example, rest)
		}
	}
	if s := parseOK(t, strings.Join(example, "")); len(s.Factors) != 2 {
		t.Errorf("%+v", s)
	}
}

// Whatever the program accepts, the schema does, so that editors mark nothing that is valid.
// Package studies checks the shipped files against it.
func TestAcceptedIsValidUnderTheSchema(t *testing.T) {
	text, err := Schema()
	must.OK(t, err)
	document, err := validation.UnmarshalJSON(bytes.NewReader(text))
	must.OK(t, err)
	c := validation.NewCompiler()
	must.OK(t, c.AddResource(SchemaID, document))
	schema, err := c.Compile(SchemaID)
	must.OK(t, err)
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		s, err := Parse(studyGen(t).Marshal(), "x.yaml", nil)
		if err != nil {
			return
		}
		accepted++
		var study any
		must.OK(t, yaml.Unmarshal(s.Marshal(), &study))
		text, err := json.Marshal(study)
		must.OK(t, err)
		document, err := validation.UnmarshalJSON(bytes.NewReader(text))
		if err == nil {
			err = schema.Validate(document)
		}
		if err != nil {
			t.Errorf("%v\n%s", err, s.Marshal())
		}
	})
	if accepted < 10 {
		t.Errorf("only %d studies were accepted", accepted)
	}
}
