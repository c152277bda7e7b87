package studies

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// validator returns the published schema, compiled by a library unrelated to the one that generated
// it.
func validator(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := study.Schema()
	must.OK(t, err)
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	must.OK(t, err)
	c := jsonschema.NewCompiler()
	must.OK(t, c.AddResource(study.SchemaID, document))
	s, err := c.Compile(study.SchemaID)
	must.OK(t, err)
	return s
}

// fromYAML decodes a file for a JSON Schema.
func fromYAML(data []byte) (any, error) {
	var document any
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, err
	}
	text, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(text))
}

func valid(t *testing.T, s *jsonschema.Schema, data []byte) {
	t.Helper()
	document, err := fromYAML(data)
	if err == nil {
		err = s.Validate(document)
	}
	if err != nil {
		t.Error(err)
	}
}

// Editors mark no errors in examples of the documentation that are studies, or parts of one.
func TestDocumentedAreValidUnderTheSchema(t *testing.T) {
	s := validator(t)
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatal(pages, err)
	}
	found := 0
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		must.OK(t, err)
		for _, block := range blocks(string(text)) {
			var part map[string]any
			if yaml.Unmarshal([]byte(block), &part) != nil || len(part) == 0 || !ofStudy(s, part) {
				continue
			}
			found++
			for name, value := range map[string]string{"name": "example", "question": "What?"} {
				if part[name] == nil {
					block += name + ": " + value + "\n"
				}
			}
			t.Run(filepath.Base(page)+"/"+strconv.Itoa(found), func(t *testing.T) { valid(t, s, []byte(block)) })
		}
	}
	if found < 8 {
		t.Errorf("%d examples", found)
	}
}

// ofStudy reports whether all keys belong to a study.
func ofStudy(s *jsonschema.Schema, part map[string]any) bool {
	for key := range part {
		if s.Properties[key] == nil {
			return false
		}
	}
	return true
}

// blocks returns a page's code blocks: fenced ones, and runs of indented lines.
func blocks(page string) (out []string) {
	var block strings.Builder
	fenced := false
	for line := range strings.Lines(page + "\n") {
		indented, isIndented := strings.CutPrefix(line, "    ")
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
		case fenced:
			block.WriteString(line)
			continue
		case isIndented:
			block.WriteString(indented)
			continue
		}
		if block.Len() > 0 {
			out = append(out, block.String())
			block.Reset()
		}
	}
	return out
}

// The schema accepts the levels in the table of factors.
func TestFactorsLevelsAreValidUnderTheSchema(t *testing.T) {
	s := validator(t)
	for _, name := range study.FactorNames() {
		f, _ := study.FactorByName(name)
		for _, level := range slices.Concat(f.Levels, f.Examples, []string{f.Default}) {
			if level != "" {
				valid(t, s, []byte("name: x\nquestion: y\nsettings: {"+name+": "+strconv.Quote(level)+"}\n"))
				valid(t, s, []byte("name: x\nquestion: y\nfactors: {"+name+": ["+strconv.Quote(level)+"]}\n"))
			}
		}
	}
}

// The schema rejects invalid files, so that editors still help.
func TestSchemaRefuses(t *testing.T) {
	s := validator(t)
	const start = "name: x\nquestion: y\n"
	for name, text := range map[string]string{
		"no question":       "name: x\n",
		"unknown field":     start + "windows: 2s\n",
		"unknown factor":    start + "settings: {colour: red}\n",
		"unknown level":     start + "settings: {mtls: perhaps}\n",
		"a time, no unit":   start + "window: 2\n",
		"quoted, no unit":   start + "window: \"2\"\n",
		"a word":            start + "settings: {connections: many}\n",
		"no whole number":   start + "settings: {connections: 1.5}\n",
		"so in quotes":      start + "settings: {connections: \"1.5\"}\n",
		"a negative number": start + "settings: {rate: -1}\n",
		"so in quotes too":  start + "settings: {rate: \"-1\"}\n",
		"no truth value":    start + "settings: {keep_alive: maybe}\n",
		"not a list":        start + "factors: {rate: 100}\n",
		"a list":            start + "settings: {rate: [100]}\n",
		"a bad name":        "name: X!\nquestion: y\n",
	} {
		document, err := fromYAML([]byte(text))
		must.OK(t, err)
		if s.Validate(document) == nil {
			t.Errorf("%s: the schema takes\n%s", name, text)
		}
		if _, err := study.Parse([]byte(text), name, nil); err == nil {
			t.Errorf("%s: the program takes\n%s", name, text)
		}
	}
}

// Numbers, booleans and strings are accepted with and without quotes, as by the program.
func TestSchemaTakesAnyScalar(t *testing.T) {
	s := validator(t)
	const start = "name: x\nquestion: y\n"
	for _, text := range []string{
		"name: 7\nquestion: 7\ntitle: true\n",
		start + "settings: {rate: \"100\", connections: \"16\"}\n",
		start + "settings: {rate: 100, connections: 16}\n",
		start + "settings: {keep_alive: \"false\"}\n",
		start + "settings: {keep_alive: false}\n",
		start + "blocks: {min: \"4\", max: 5}\nseed: \"3\"\n",
		start + "warmup: {min: 0, max: \"0\"}\n",
		start + "load: {headers: {x-user: 12, x-on: true}}\n",
		start + "control: {}\nfactors: {istiod_cpu: [1, \"2\", 1.5], push_throttle: [default, 50, \"60\"], eds_debounce: [true, \"false\"], istiod_replicas: [1, \"2\"]}\n",
	} {
		if _, err := study.Parse([]byte(text), "x", nil); err != nil {
			t.Errorf("the program refuses\n%s%v", text, err)
		}
		valid(t, s, []byte(text))
	}
}
