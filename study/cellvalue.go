package study

import (
	"net/textproto"
	"sort"
	"strings"
	"time"

	"github.com/invopop/jsonschema"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
)

// factorNames are the names of a kind's factors in the table's order.
func factorNames(k Kind) []string {
	var out []string
	for _, f := range k.Factors() {
		out = append(out, f.Name)
	}
	return out
}

// factor finds a factor that this study can have.
func (d *decoder) factor(k key) (Factor, bool) {
	f, ok := d.kind.Factor(k.name)
	if !ok {
		f, ok = FactorByName(k.name)
	} else {
		return f, true
	}
	if !ok {
		d.fail(k.pos, CodeUnknown, errs.Suggest(k.name, factorNames(d.kind)), "unknown factor %q", clip(k.name, 40))
		return f, false
	}
	return f, f.Kind == "" || !d.notHere(f.Name, only(f.Kind), k.pos)
}

// level reads one level of a factor.
func (d *decoder) level(f Factor, n *node) (string, bool) {
	text, ok := d.text(n)
	if !ok {
		return "", false
	}
	level, c := f.parse(text)
	if c != nil {
		d.fail(n.pos, c.Code, c.Hint, "%s: %s", f.Name, c.Msg)
		return "", false
	}
	if f.Name == FactorVariant && !d.knowsVariant(level, n.pos) {
		return "", false
	}
	return level, true
}

// cellValue is a mapping of factors to levels, some or all of them.
type cellValue struct {
	to   *record.Cell
	name string
	// empty is written, and may be read, for a cell of no levels.
	empty bool
}

func (v cellValue) decode(d *decoder, n *node) {
	if n.kind != mapping {
		d.fail(n.pos, CodeType, "as {"+d.kind.spec().Example+"}", "%s maps factors to levels; this is %s", v.name, n.what())
		return
	}
	if len(n.keys) == 0 && !v.empty {
		d.fail(n.pos, CodeMissing, "as {"+d.kind.spec().Example+"}", "%s names no factor", v.name)
		return
	}
	out := record.Cell{}
	for i, k := range n.keys {
		f, ok := d.factor(k)
		if !ok {
			continue
		}
		value := n.values[i]
		if value.kind == null {
			d.fail(k.pos, CodeMissing, "give it a level or leave it out", "%s is empty", k.name)
			continue
		}
		if value.kind == sequence {
			d.fail(value.pos, CodeType, "factors that vary stand in factors", "%s takes one level of %s here", v.name, k.name)
			continue
		}
		if level, ok := d.level(f, value); ok {
			out[k.name] = level
		}
	}
	*v.to = out
}

func (v cellValue) encode() *node {
	out := &node{kind: mapping, style: styleFlow}
	for _, f := range allFactors() {
		if level, ok := (*v.to)[f.Name]; ok {
			out.set(f.Name, Pos{}, plainNode(level))
		}
	}
	if len(out.keys) == 0 && !v.empty {
		return nil
	}
	return out
}

func (v cellValue) schema() *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object", Properties: jsonschema.NewProperties(), AdditionalProperties: jsonschema.FalseSchema}
	for _, f := range allFactors() {
		s.Properties.Set(f.Name, &jsonschema.Schema{Ref: "#/$defs/" + f.Name})
	}
	return s
}

// factorsValue is the mapping of factors that vary to lists of levels.
type factorsValue struct{ to *[]record.FactorLevels }

func (v factorsValue) decode(d *decoder, n *node) {
	if n.kind != mapping {
		d.fail(n.pos, CodeType, "as {"+strings.Replace(d.kind.spec().Example, ": ", ": [", 1)+", ...]}", "factors maps factors to lists of levels; this is %s", n.what())
		return
	}
	for i, k := range n.keys {
		f, ok := d.factor(k)
		if !ok {
			continue
		}
		list := n.values[i]
		if list.kind != sequence {
			d.fail(k.pos, CodeType, "write "+k.name+": [...]; a factor with one level can stand in settings", "the levels of %s must be a list", k.name)
			continue
		}
		if len(list.values) == 0 {
			d.fail(list.pos, CodeMissing, "leave the factor out, or give it levels", "%s has no levels", k.name)
			continue
		}
		seen := map[string]bool{}
		levels := make([]string, 0, len(list.values))
		for _, item := range list.values {
			level, ok := d.level(f, item)
			switch {
			case !ok:
			case seen[level]:
				d.fail(item.pos, CodeDuplicate, "every level is one cell already", "level %s of %s is given twice", level, k.name)
			default:
				seen[level] = true
				levels = append(levels, level)
			}
		}
		*v.to = append(*v.to, record.FactorLevels{Factor: f.Name, Levels: levels, Unit: f.Unit})
	}
}

func (v factorsValue) encode() *node {
	out := &node{kind: mapping}
	for _, f := range *v.to {
		list := &node{kind: sequence, style: styleFlow}
		for _, level := range f.Levels {
			list.values = append(list.values, plainNode(level))
		}
		out.set(f.Factor, Pos{}, list)
	}
	if len(out.keys) == 0 {
		return nil
	}
	return out
}

func (v factorsValue) schema() *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object", Properties: jsonschema.NewProperties(), AdditionalProperties: jsonschema.FalseSchema}
	one := uint64(1)
	for _, f := range allFactors() {
		s.Properties.Set(f.Name, &jsonschema.Schema{Type: "array", MinItems: &one, UniqueItems: true,
			Description: f.description(), Items: &jsonschema.Schema{Ref: "#/$defs/" + f.Name}})
	}
	return s
}

// headersValue is a mapping of header names to values.
type headersValue struct{ to *map[string]string }

func (v headersValue) decode(d *decoder, n *node) {
	if n.kind != mapping {
		d.fail(n.pos, CodeType, "as {x-user: someone}", "headers maps names to values; this is %s", n.what())
		return
	}
	out := map[string]string{}
	for i, k := range n.keys {
		text, ok := d.text(n.values[i])
		if !ok {
			continue
		}
		name := textproto.CanonicalMIMEHeaderKey(k.name)
		switch {
		case !reToken.MatchString(k.name):
			d.fail(k.pos, CodeInvalid, "use letters, digits and dashes, as x-user", "invalid header name %q", clip(k.name, 40))
		case has([]string{"Host", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Expect"}, name):
			d.fail(k.pos, CodeConflict, "leave it out", "the generator sets %s itself", name)
		case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			d.fail(n.values[i].pos, CodeInvalid, "", "the value of %s has a control character", k.name)
		case len(text) > 8192:
			d.fail(n.values[i].pos, CodeRange, "", "the value of %s is longer than 8192 bytes", k.name)
		case out[name] != "":
			d.fail(k.pos, CodeDuplicate, "", "header %s is given twice", name)
		default:
			out[name] = strings.TrimSpace(text)
		}
	}
	*v.to = out
}

func (v headersValue) encode() *node {
	if len(*v.to) == 0 {
		return nil
	}
	names := make([]string, 0, len(*v.to))
	for name := range *v.to {
		names = append(names, name)
	}
	sort.Strings(names)
	out := &node{kind: mapping}
	for _, name := range names {
		out.set(name, Pos{}, textNode((*v.to)[name]))
	}
	return out
}

func (v headersValue) schema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", AdditionalProperties: &jsonschema.Schema{Type: "string"}}
}

// exprValue is a CEL expression, or one with the time that it is about; its
// syntax is checked where it is used.
type exprValue struct{ to *Expr }

func (v exprValue) object() object {
	return object{name: "an assertion", flow: true, fields: []field{
		{name: "expr", required: true, doc: "CEL over one moment: error_share, rate (answered per second), requests, failed, latency_p50, latency_p90, latency_p99 and latency_max (ms; a failed request is infinitely late), answered_p50 and so on (of answered requests), of a sliding second, ready(service), ejected(service).", value: textValue{to: &v.to.Text}},
		{name: "after", doc: "Step whose start begins the period; the start of the timeline if left out.", value: textValue{to: &v.to.After}},
		{name: "until", doc: "Step whose start ends the period; the end of the timeline if left out.", value: textValue{to: &v.to.Until}},
		{name: "within", doc: "Deadline for it to come true; with neither this nor for, it must hold throughout.", value: durationValue{to: &v.to.Within, high: time.Hour, omitZero: true}},
		{name: "for", doc: "How long it must then stay true; once is enough if left out.", value: durationValue{to: &v.to.For, high: time.Hour, omitZero: true}},
	}}
}

func (v exprValue) decode(d *decoder, n *node) {
	v.to.Pos = n.pos
	if n.kind != mapping {
		textValue{to: &v.to.Text}.decode(d, n)
		return
	}
	if !d.kind.spec().Moments {
		d.fail(n.pos, CodeKind, "write the expression alone", "assertions about moments belong to resilience, and this study is one of %s", d.kind.About())
		return
	}
	v.to.Timed = true
	v.object().decode(d, n)
}

func (v exprValue) encode() *node {
	if v.to.Timed {
		return v.object().encode()
	}
	return textNode(v.to.Text)
}

func (v exprValue) schema() *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string"}, v.object().schema()}}
}

// stopValue is the stop rule, or none.
type stopValue struct{ to **Stop }

func (v stopValue) object(s *Stop) object {
	return object{name: "stop", flow: true, fields: []field{
		{name: "finding", required: true, doc: "The finding whose interval must become narrow enough.", value: findingValue{&s.Finding}},
		{name: "half_width", required: true, doc: "Target half-width of the interval, as a share of the estimate.", value: ratioValue{&s.HalfWidth}},
		{name: "of", doc: "The cells it applies to; all that are compared with a baseline if left out.", value: cellValue{to: &s.Of, name: "of"}},
	}}
}

func (v stopValue) decode(d *decoder, n *node) {
	if n.kind == scalar && n.text == "none" {
		*v.to = nil
		return
	}
	s := &Stop{}
	v.object(s).decode(d, n)
	*v.to = s
}

func (v stopValue) encode() *node {
	if *v.to == nil {
		return plainNode("none")
	}
	return v.object(*v.to).encode()
}

func (v stopValue) schema() *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{v.object(&Stop{}).schema(), {Const: "none"}}}
}
