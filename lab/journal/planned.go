package journal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/lab/journal/fields"
)

// Planned describes what a run will change outside its namespace.
type Planned struct {
	Object string          `json:"object"` // Kind namespace/name, or a description of several
	Done   Done            `json:"done"`
	Fields []PlannedChange `json:"fields,omitempty"`
	// Note describes accompanying effects.
	Note string `json:"note,omitempty"`
	// Wide describes the effects on every proxy of the mesh, whoever owns it.
	Wide []string `json:"wide,omitempty"`
}

// PlannedChange is a field that will change: its current value, and its values during the
// run in the order of cells.
type PlannedChange struct {
	Field string   `json:"field"`
	From  string   `json:"from"`
	To    []string `json:"to"`
}

// Plan returns the changes that successive versions make to an object, and false if none
// differs.
func Plan(o Object, live map[string]any, versions []map[string]any, texts ...[]fields.Step) (Planned, bool) {
	out := Planned{Object: o.String(), Done: Changed}
	for _, v := range versions {
		for _, f := range flat(nil, fields.Diff(live, v, texts...)) {
			i := slices.IndexFunc(out.Fields, func(c PlannedChange) bool { return c.Field == f.String() })
			if i < 0 {
				i = len(out.Fields)
				out.Fields = append(out.Fields, PlannedChange{Field: f.String(), From: shown(o, f, f.Before)})
			}
			to := &out.Fields[i].To
			if value := shown(o, f, f.Wrote[len(f.Wrote)-1]); !slices.Contains(*to, value) {
				*to = append(*to, value)
			}
		}
	}
	return out, len(out.Fields) > 0
}

// flat expands fields that contain YAML.
func flat(path []fields.Step, all []fields.Field) (out []fields.Field) {
	for _, f := range all {
		f.Path = slices.Concat(path, f.Path)
		switch {
		case f.Order != nil:
		case len(f.Parts) > 0:
			out = append(out, flat(f.Path, f.Parts)...)
		default:
			out = append(out, f)
		}
	}
	return out
}

// Text describes the plan, a line for each object and field.
func Text(all []Planned) string {
	var b strings.Builder
	for _, p := range all {
		fmt.Fprintf(&b, "  %s: %s", p.Object, p.Done)
		if p.Note != "" {
			fmt.Fprintf(&b, " (%s)", p.Note)
		}
		b.WriteString("\n")
		for _, f := range p.Fields {
			fmt.Fprintf(&b, "    %s: %s -> %s\n", f.Field, f.From, strings.Join(f.To, ", "))
		}
		for _, text := range p.Wide {
			fmt.Fprintf(&b, "    mesh-wide, by %s\n", text)
		}
	}
	return b.String()
}
