package study

import (
	"bytes"
	"encoding/json"

	"github.com/invopop/jsonschema"
)

// SchemaID names the published JSON Schema.
const SchemaID = "https://raw.githubusercontent.com/meshtrial/meshtrial/main/docs/study.schema.json"

// Schema returns the JSON Schema of study files, for editors: complete on
// names and levels, while [Parse] knows more about what goes together.
func Schema() ([]byte, error) {
	s := root(defaults()).schema()
	s.Version = jsonschema.Version
	s.ID = SchemaID
	s.Title = "meshtrial study"
	s.Description = "A file that asks one question of a mesh: what varies, what is measured, what it is compared with."
	s.Definitions = jsonschema.Definitions{}
	for _, f := range allFactors() {
		s.Definitions[f.Name] = f.schema()
	}
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
