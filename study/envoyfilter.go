package study

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/yamltree"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// EnvoyFilter is an EnvoyFilter of the user's, by the name that the factor
// filters has for it.
type EnvoyFilter struct {
	Name string
	// File is where it is; see [Study.WithFiles]. Empty once it is read.
	File string
	// Patches are its configPatches, as Kubernetes' JSON has them: the workload
	// that it selects and its namespace are left out.
	Patches  []any
	Priority int64
}

// envoyFilterFormat bounds the files: an object of Kubernetes may be little
// larger.
var envoyFilterFormat = yamltree.Format{What: "EnvoyFilter", Bytes: 512 << 10, Tokens: 40_000, Values: 20_000, Depth: 64}

// EnvoyFilterOf is the study's EnvoyFilter of a name.
func (s *Study) EnvoyFilterOf(name string) (EnvoyFilter, bool) {
	for _, f := range s.EnvoyFilters {
		if f.Name == name {
			return f, true
		}
	}
	return EnvoyFilter{}, false
}

// parse reads the file's contents.
func (f *EnvoyFilter) parse(data []byte) error {
	src := &source{name: f.File}
	tree, failed := yamltree.Read(data, envoyFilterFormat)
	if len(data) <= envoyFilterFormat.Bytes {
		src.lines = yamltree.Lines(data)
	}
	if failed != nil {
		return src.at(failed.Line, failed.Column).fault(CodeConflict, failed.Hint, "%s", failed.Msg)
	}
	if tree == nil {
		return src.at(1, 1).fault(CodeMissing, "an EnvoyFilter as kubectl apply takes it", "nothing is in it")
	}
	root := src.node(tree)
	if root.kind != mapping {
		return root.pos.fault(CodeType, "an EnvoyFilter as kubectl apply takes it", "an EnvoyFilter is a mapping; this is %s", root.what())
	}
	if kind := root.get("kind"); kind == nil || kind.text != "EnvoyFilter" {
		at, what := root.pos, "nothing"
		if kind != nil {
			at, what = kind.pos, kind.what()
		}
		return at.fault(CodeConflict, "kind: EnvoyFilter; other objects are no parts of a sidecar", "the kind is %s", what)
	}
	spec := root.get("spec")
	if spec == nil || spec.kind != mapping {
		return root.pos.fault(CodeConflict, "spec: {configPatches: [...]}", "the EnvoyFilter has no spec")
	}
	for i, k := range spec.keys {
		value := spec.values[i]
		switch k.name {
		case "workloadSelector", "targetRefs": // replaced by the server's workload
		case "priority":
			n, err := strconv.ParseInt(value.text, 10, 32)
			if value.kind != scalar || err != nil {
				return value.pos.fault(CodeConflict, "a whole number", "priority is %s", value.what())
			}
			f.Priority = n
		case "configPatches":
			if err := f.patches(value); err != nil {
				return err
			}
		default:
			return k.pos.fault(CodeConflict, errs.Suggest(k.name, []string{"configPatches", "priority", "workloadSelector", "targetRefs"}), "an EnvoyFilter's spec has no field %q", clip(k.name, 40))
		}
	}
	if len(f.Patches) == 0 {
		return spec.pos.fault(CodeConflict, "configPatches: [{applyTo: HTTP_FILTER, ...}]", "the EnvoyFilter patches nothing")
	}
	return nil
}

// patches reads configPatches.
func (f *EnvoyFilter) patches(list *node) error {
	if list.kind != sequence {
		return list.pos.fault(CodeConflict, "a list", "configPatches is %s", list.what())
	}
	for _, one := range list.values {
		if one.kind != mapping || one.get("applyTo") == nil || one.get("patch") == nil {
			return one.pos.fault(CodeConflict, "as {applyTo: HTTP_FILTER, match: {...}, patch: {operation: ..., value: {...}}}", "a patch has at least applyTo and patch")
		}
		f.Patches = append(f.Patches, jsonValue(one))
	}
	return nil
}

// jsonValue is a tree as Kubernetes' JSON: its scalars typed as YAML 1.2's core
// schema has it.
func jsonValue(n *node) any {
	switch n.kind {
	case mapping:
		out := make(map[string]any, len(n.keys))
		for i, k := range n.keys {
			out[k.name] = jsonValue(n.values[i])
		}
		return out
	case sequence:
		out := make([]any, len(n.values))
		for i, v := range n.values {
			out[i] = jsonValue(v)
		}
		return out
	case null:
		return nil
	}
	if n.quoted {
		return n.text
	}
	switch n.text {
	case "true", "True", "TRUE":
		return true
	case "false", "False", "FALSE":
		return false
	}
	if v, err := strconv.ParseInt(n.text, 10, 64); err == nil {
		return v
	}
	if json.Valid([]byte(n.text)) { // a number: objects and lists are no scalars
		if v, err := strconv.ParseFloat(n.text, 64); err == nil {
			return v
		}
	}
	return n.text
}

// envoyFiltersValue is the mapping of names to files or, in a study's resolved
// form, to what was in them.
type envoyFiltersValue struct{ to *[]EnvoyFilter }

func (v envoyFiltersValue) decode(d *decoder, n *node) {
	const hint = "as {mine: mine.yaml}"
	if n.kind != mapping {
		d.fail(n.pos, CodeType, hint, "envoy_filters maps names to files; this is %s", n.what())
		return
	}
	for i, k := range n.keys {
		value := n.values[i]
		if !reName.MatchString(k.name) {
			d.fail(k.pos, CodeInvalid, nameHint, "invalid EnvoyFilter name %q", clip(k.name, 40))
			continue
		}
		f := EnvoyFilter{Name: k.name}
		switch value.kind {
		case scalar:
			textValue{to: &f.File}.decode(d, value)
		case mapping:
			object{name: k.name, fields: []field{{name: "inline", required: true, value: inlineValue{&f}}}}.decode(d, value)
		default:
			d.fail(value.pos, CodeConflict, hint, "%s is no file", k.name)
		}
		*v.to = append(*v.to, f)
	}
}

func (v envoyFiltersValue) encode() *node {
	if len(*v.to) == 0 {
		return nil
	}
	out := &node{kind: mapping}
	for i := range *v.to {
		f := &(*v.to)[i]
		if f.File != "" {
			out.set(f.Name, Pos{}, textNode(f.File))
			continue
		}
		inner := &node{kind: mapping}
		inner.set("inline", Pos{}, inlineValue{f}.encode())
		out.set(f.Name, Pos{}, inner)
	}
	return out
}

func (v envoyFiltersValue) schema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", AdditionalProperties: &jsonschema.Schema{OneOf: []*jsonschema.Schema{
		{Type: "string"},
		object{fields: []field{{name: "inline", required: true, value: inlineValue{}}}}.schema(),
	}}}
}

// inlineValue is an EnvoyFilter that was read: JSON in a text, which keeps its
// types.
type inlineValue struct{ to *EnvoyFilter }

// inline is the text's form.
type inline struct {
	Priority int64 `json:"priority,omitempty"`
	Patches  []any `json:"configPatches"`
}

func (v inlineValue) decode(d *decoder, n *node) {
	text, ok := d.text(n)
	if !ok {
		return
	}
	var in inline
	read := json.NewDecoder(strings.NewReader(text))
	read.UseNumber() // large integers stay what they are
	if err := read.Decode(&in); err != nil || len(in.Patches) == 0 {
		d.fail(n.pos, CodeConflict, "name a file in its place, as mine: mine.yaml", "this is not what meshtrial writes for an EnvoyFilter that it has read")
		return
	}
	v.to.Priority, v.to.Patches = in.Priority, whole(in.Patches).([]any)
}

// whole turns JSON's numbers into integers where they are some, as Kubernetes
// has them.
func whole(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			v[key] = whole(inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = whole(inner)
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		n, err := v.Float64()
		if err != nil { // larger than any
			return v.String()
		}
		return n
	}
	return v
}

func (v inlineValue) encode() *node {
	text, err := json.Marshal(inline{v.to.Priority, v.to.Patches})
	if err != nil { // values of JSON encode
		panic(err)
	}
	return textNode(string(text))
}

func (inlineValue) schema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Description: "An EnvoyFilter that was read, as JSON with configPatches."}
}

// checkFilters finds levels of filters that name no file of the study, and
// files that no level names.
func (d *decoder) checkFilters(s *Study) {
	for _, p := range fileParts(s.levels(FactorFilters)) {
		if _, ok := s.EnvoyFilterOf(p.File); !ok {
			d.fail(s.Place(FactorFilters), CodeConflict, fmt.Sprintf("envoy_filters: {%s: FILE}", p.File), "the part %s needs an EnvoyFilter that the study does not name", p)
		}
	}
	used := fileParts(s.written(FactorFilters))
	for _, f := range s.EnvoyFilters {
		if !slices.ContainsFunc(used, func(p Part) bool { return p.File == f.Name }) {
			d.fail(d.pos("envoy_filters", f.Name), CodeConflict, "give filters the level envoyfilter-"+f.Name, "no level of filters has the EnvoyFilter %s", f.Name)
		}
	}
}

// fileParts are the parts of levels of filters that are files.
func fileParts(levels []string) (out []Part) {
	for _, level := range levels {
		list, _ := Parts(level) // what is wrong with it is found where it stands
		for _, p := range list {
			if p.File != "" {
				out = append(out, p)
			}
		}
	}
	return out
}

// checkFilterCells finds cells whose sidecars see no requests to have filters
// for.
func (d *decoder) checkFilterCells(p *Plan) {
	for _, cell := range p.Cells {
		if parts, err := Parts(cell[FactorFilters]); err != nil || len(parts) == 0 {
			continue
		}
		why := ""
		switch {
		case headless(protocol.Of(cell[FactorProtocol])):
			why = "with protocol " + cell[FactorProtocol]
		case p.Study.Load.TLS:
			why = "if the generator speaks TLS itself"
		default:
			continue
		}
		d.fail(p.Study.Place(FactorFilters), CodeConflict, "leave such cells out", "cell %s: filters are for requests, which sidecars do not see %s", p.Label(cell), why)
		return
	}
}
