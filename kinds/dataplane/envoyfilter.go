package dataplane

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/yamltree"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// EnvoyFilter is a user-defined EnvoyFilter, with its name in the factor filters.
type EnvoyFilter struct {
	Name string
	// File is its path; see [study.Study.WithFiles]. It is empty once the file has been read.
	File string
	// Patches holds its configPatches as Kubernetes JSON. The selected workload and the namespace
	// are left out.
	Patches  []any
	Priority int64
}

// envoyFilterFormat limits the files to little more than the maximum size of a Kubernetes object.
var envoyFilterFormat = yamltree.Format{What: "EnvoyFilter", Bytes: 512 << 10, Tokens: 40_000, Values: 20_000, Depth: 64}

// EnvoyFilterOf returns the study's EnvoyFilter of a name.
func EnvoyFilterOf(s *study.Study, name string) (EnvoyFilter, bool) {
	i := slices.IndexFunc(Of(s).EnvoyFilters, func(f EnvoyFilter) bool { return f.Name == name })
	if i < 0 {
		return EnvoyFilter{}, false
	}
	return Of(s).EnvoyFilters[i], true
}

// parse reads the file's contents.
func (f *EnvoyFilter) parse(data []byte) error {
	root, err := study.ReadTree(data, f.File, envoyFilterFormat, "write an EnvoyFilter as for kubectl apply")
	if err != nil {
		return err
	}
	if root.Kind != study.Mapping {
		return root.Pos.Fault(study.CodeType, "write an EnvoyFilter as for kubectl apply", "an EnvoyFilter must be a mapping, not %s", root.What())
	}
	if kind := root.Get("kind"); kind == nil || kind.Text != "EnvoyFilter" {
		at, what := root.Pos, "nothing"
		if kind != nil {
			at, what = kind.Pos, kind.What()
		}
		return at.Fault(study.CodeConflict, "use kind: EnvoyFilter; other objects are not parts of a sidecar", "the kind is %s", what)
	}
	spec := root.Get("spec")
	if spec == nil || spec.Kind != study.Mapping {
		return root.Pos.Fault(study.CodeConflict, "spec: {configPatches: [...]}", "the EnvoyFilter has no spec")
	}
	for i, k := range spec.Keys {
		value := spec.Values[i]
		switch k.Name {
		case "workloadSelector", "targetRefs": // replaced by the server's workload
		case "priority":
			n, err := strconv.ParseInt(value.Text, 10, 32)
			if value.Kind != study.Scalar || err != nil {
				return value.Pos.Fault(study.CodeConflict, "a whole number", "priority is %s", value.What())
			}
			f.Priority = n
		case "configPatches":
			if err := f.patches(value); err != nil {
				return err
			}
		default:
			return k.Pos.Fault(study.CodeConflict, errs.Suggest(k.Name, []string{"configPatches", "priority", "workloadSelector", "targetRefs"}), "an EnvoyFilter's spec has no field %q", study.Clip(k.Name, 40))
		}
	}
	if len(f.Patches) == 0 {
		return spec.Pos.Fault(study.CodeConflict, "configPatches: [{applyTo: HTTP_FILTER, ...}]", "the EnvoyFilter patches nothing")
	}
	return nil
}

func (f *EnvoyFilter) patches(list *study.Node) error {
	if list.Kind != study.Sequence {
		return list.Pos.Fault(study.CodeConflict, "a list", "configPatches is %s", list.What())
	}
	for _, one := range list.Values {
		if one.Kind != study.Mapping || one.Get("applyTo") == nil || one.Get("patch") == nil {
			return one.Pos.Fault(study.CodeConflict, "as {applyTo: HTTP_FILTER, match: {...}, patch: {operation: ..., value: {...}}}", "a patch needs at least applyTo and patch")
		}
		f.Patches = append(f.Patches, jsonValue(one))
	}
	return nil
}

// jsonValue converts a tree to Kubernetes JSON, with scalar types from YAML 1.2's core schema.
func jsonValue(n *study.Node) any {
	switch n.Kind {
	case study.Mapping:
		out := make(map[string]any, len(n.Keys))
		for i, k := range n.Keys {
			out[k.Name] = jsonValue(n.Values[i])
		}
		return out
	case study.Sequence:
		out := make([]any, len(n.Values))
		for i, v := range n.Values {
			out[i] = jsonValue(v)
		}
		return out
	case study.Null:
		return nil
	}
	if n.Quoted {
		return n.Text
	}
	switch n.Text {
	case "true", "True", "TRUE":
		return true
	case "false", "False", "FALSE":
		return false
	}
	if v, err := strconv.ParseInt(n.Text, 10, 64); err == nil {
		return v
	}
	if json.Valid([]byte(n.Text)) { // a number: objects and lists are not scalars
		if v, err := strconv.ParseFloat(n.Text, 64); err == nil {
			return v
		}
	}
	return n.Text
}

// envoyFiltersValue maps names to files or, in a study's resolved form, to their contents.
type envoyFiltersValue struct{ to *[]EnvoyFilter }

func (v envoyFiltersValue) Decode(d *study.Decoder, n *study.Node) {
	decodeFiles(d, n, "envoy_filters", "an EnvoyFilter", "as {mine: mine.yaml}", func(name string, value *study.Node) {
		f := EnvoyFilter{Name: name}
		if value.Kind == study.Scalar {
			study.Prose(&f.File).Decode(d, value)
		} else {
			f.fields().Decode(d, value)
		}
		*v.to = append(*v.to, f)
	})
}

// decodeFiles decodes the entries of a section that maps names to files or, in a study's resolved
// form, to their contents: scalars or mappings. what is one of them, with its article.
func decodeFiles(d *study.Decoder, n *study.Node, section, what, hint string, entry func(name string, value *study.Node)) {
	if n.Kind != study.Mapping {
		d.Fail(n.Pos, study.CodeType, hint, "%s must map names to files, not be %s", section, n.What())
		return
	}
	for i, k := range n.Keys {
		value := n.Values[i]
		switch {
		case !study.NamePattern.MatchString(k.Name):
			d.Fail(k.Pos, study.CodeInvalid, study.NameHint, "invalid name of %s %q", what, study.Clip(k.Name, 40))
		case value.Kind != study.Scalar && value.Kind != study.Mapping:
			d.Fail(value.Pos, study.CodeConflict, hint, "%s is not a file", k.Name)
		default:
			entry(k.Name, value)
		}
	}
}

// encodeFiles encodes such entries; each returns its name, its file, and its contents if it was read.
func encodeFiles[T any](all []T, each func(*T) (name, file string, read study.Object)) *study.Node {
	if len(all) == 0 {
		return nil
	}
	out := &study.Node{Kind: study.Mapping}
	for i := range all {
		name, file, read := each(&all[i])
		if file != "" {
			out.Set(name, study.Pos{}, study.TextNode(file))
		} else {
			out.Set(name, study.Pos{}, read.Encode())
		}
	}
	return out
}

func filesSchema(read study.Object) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", AdditionalProperties: &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: "string"}, read.Schema()}}}
}

func (f *EnvoyFilter) fields() study.Object {
	return study.Object{Name: f.Name, Fields: []study.Field{{Name: "inline", Required: true, Value: inlineValue{f}}}}
}

func (v envoyFiltersValue) Encode() *study.Node {
	return encodeFiles(*v.to, func(f *EnvoyFilter) (name, file string, read study.Object) { return f.Name, f.File, f.fields() })
}

func (v envoyFiltersValue) Schema() *jsonschema.Schema { return filesSchema((&EnvoyFilter{}).fields()) }

// inlineValue is an EnvoyFilter that has been read, as JSON in a text, which preserves its types.
type inlineValue struct{ to *EnvoyFilter }

type inline struct {
	Priority int64 `json:"priority,omitempty"`
	Patches  []any `json:"configPatches"`
}

func (v inlineValue) Decode(d *study.Decoder, n *study.Node) {
	text, ok := d.Text(n)
	if !ok {
		return
	}
	var in inline
	read := json.NewDecoder(strings.NewReader(text))
	read.UseNumber() // preserve large integers
	if err := read.Decode(&in); err != nil || len(in.Patches) == 0 {
		d.Fail(n.Pos, study.CodeConflict, "name a file instead, for example mine: mine.yaml", "this is not how meshtrial writes an EnvoyFilter that it has read")
		return
	}
	v.to.Priority, v.to.Patches = in.Priority, whole(in.Patches).([]any)
}

// whole converts JSON numbers to integers if they are integers, as Kubernetes does.
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
		if err != nil { // out of range
			return v.String()
		}
		return n
	}
	return v
}

func (v inlineValue) Encode() *study.Node {
	text, err := json.Marshal(inline{v.to.Priority, v.to.Patches})
	if err != nil { // JSON values always encode
		panic(err)
	}
	return study.TextNode(string(text))
}

func (inlineValue) Schema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Description: "An EnvoyFilter that was read, as JSON with configPatches."}
}

// checkFilters finds levels of filters that name no file of the study, and files that no level
// names.
func checkFilters(d *study.Decoder, s *study.Study) {
	c := Of(s)
	named := map[string][]string{} // by section
	for _, f := range c.EnvoyFilters {
		named["envoy_filters"] = append(named["envoy_filters"], f.Name)
	}
	for _, m := range c.Wasm {
		named["wasm"] = append(named["wasm"], m.Name)
	}
	for _, p := range fileParts(s.Levels(FactorFilters)) {
		section := partKinds[kindIndex(p.Kind)].File
		if !slices.Contains(named[section], p.File) {
			d.Fail(s.Place(FactorFilters), study.CodeConflict, fmt.Sprintf("%s: {%s: FILE}", section, p.File), "part %s needs a file that the study does not name", p)
		}
	}
	used := fileParts(s.Written(FactorFilters))
	for _, kind := range partKinds {
		for _, name := range named[kind.File] {
			if !slices.Contains(used, Part{Kind: kind.Name, File: name}) {
				d.Fail(d.Pos(kind.File, name), study.CodeConflict, fmt.Sprintf("add to filters the level %s-%s", kind.Name, name), "no level of filters uses %s of %s", name, kind.File)
			}
		}
	}
}

func fileParts(levels []string) (out []Part) {
	for _, level := range levels {
		list, _ := Parts(level) // errors are reported with the level's position
		for _, p := range list {
			if p.File != "" {
				out = append(out, p)
			}
		}
	}
	return out
}

// checkFilterCells finds cells whose sidecars see no requests to filter.
func checkFilterCells(d *study.Decoder, p *study.Plan) {
	for _, cell := range p.Cells {
		if !somePart(cell[FactorFilters], func(PartKind) bool { return true }) {
			continue
		}
		why := ""
		switch {
		case headless(protocol.Of(cell[study.FactorProtocol])):
			why = "with protocol " + cell[study.FactorProtocol]
		case protocol.Of(cell[study.FactorProtocol]).Streams:
			why = "with protocol " + cell[study.FactorProtocol] + ", whose messages share one request"
		case atWaypoint(cell) && somePart(cell[FactorFilters], func(k PartKind) bool { return !k.Asks }):
			d.Fail(p.Study.Place(FactorFilters), study.CodeConflict, "leave the others out, or such cells", "cell %s: a waypoint can only have the parts %s, joined by +", p.Label(cell), strings.Join(study.Callouts(), ", "))
			return
		case p.Study.Load.TLS:
			why = "if the generator speaks TLS itself"
		default:
			continue
		}
		d.Fail(p.Study.Place(FactorFilters), study.CodeConflict, "leave such cells out", "cell %s: filters apply to requests, which sidecars cannot see %s", p.Label(cell), why)
		return
	}
}
