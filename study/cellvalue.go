package study

import (
	"maps"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/invopop/jsonschema"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
)

// factorNames returns the names of a kind's factors, in the table's order.
func factorNames(k Kind) []string {
	var out []string
	for _, f := range k.Factors() {
		out = append(out, f.Name)
	}
	return out
}

// factor finds a factor that this study may have.
func (d *Decoder) factor(k key) (Factor, bool) {
	if k.Name == FactorVariant {
		return variantFactor, true
	}
	if f, ok := d.kind.Factor(k.Name); ok {
		return f, true
	}
	for _, other := range Kinds() {
		if f, ok := other.Factor(k.Name); ok {
			d.notHere(f.Name, only(other), k.Pos)
			return f, false
		}
	}
	d.Fail(k.Pos, CodeUnknown, errs.Suggest(k.Name, factorNames(d.kind)), "unknown factor %q", Clip(k.Name, 40))
	return Factor{}, false
}

// level reads one level of a factor.
func (d *Decoder) level(f Factor, n *Node) (string, bool) {
	text, ok := d.Text(n)
	if !ok {
		return "", false
	}
	level, c := f.Parse(text)
	if c != nil {
		d.Fail(n.Pos, c.Code, c.Hint, "%s: %s", f.Name, c.Msg)
		return "", false
	}
	if f.Name == FactorVariant && !d.KnowsVariant(level, n.Pos) {
		return "", false
	}
	return level, true
}

// CellValue maps some or all factors to levels.
type CellValue struct {
	To   *record.Cell
	Name string
	// Empty is how a cell without levels is written; it is accepted on input too.
	Empty bool
}

func (v CellValue) Decode(d *Decoder, n *Node) {
	if n.Kind != Mapping {
		d.Fail(n.Pos, CodeType, "as {"+d.kind.spec().Example+"}", "%s must map factors to levels, not be %s", v.Name, n.What())
		return
	}
	if len(n.Keys) == 0 && !v.Empty {
		d.Fail(n.Pos, CodeMissing, "as {"+d.kind.spec().Example+"}", "%s names no factor", v.Name)
		return
	}
	out := record.Cell{}
	for i, k := range n.Keys {
		f, ok := d.factor(k)
		if !ok {
			continue
		}
		value := n.Values[i]
		if value.Kind == Null {
			d.Fail(k.Pos, CodeMissing, "give it a level or leave it out", "%s is empty", k.Name)
			continue
		}
		if value.Kind == Sequence {
			d.Fail(value.Pos, CodeType, "move it to factors, where levels vary", "%s takes one level of %s here", v.Name, k.Name)
			continue
		}
		if level, ok := d.level(f, value); ok {
			out[k.Name] = level
		}
	}
	*v.To = out
}

func (v CellValue) Encode() *Node {
	out := &Node{Kind: Mapping, Style: StyleFlow}
	for _, f := range allFactors() {
		if level, ok := (*v.To)[f.Name]; ok {
			out.Set(f.Name, Pos{}, PlainNode(level))
		}
	}
	if len(out.Keys) == 0 && !v.Empty {
		return nil
	}
	return out
}

func (v CellValue) Schema() *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object", Properties: jsonschema.NewProperties(), AdditionalProperties: jsonschema.FalseSchema}
	for _, f := range allFactors() {
		s.Properties.Set(f.Name, &jsonschema.Schema{Ref: "#/$defs/" + f.Name})
	}
	return s
}

// factorsValue maps the factors that vary to lists of levels.
type factorsValue struct{ to *[]record.FactorLevels }

func (v factorsValue) Decode(d *Decoder, n *Node) {
	if n.Kind != Mapping {
		d.Fail(n.Pos, CodeType, "as {"+strings.Replace(d.kind.spec().Example, ": ", ": [", 1)+", ...]}", "factors must map factors to lists of levels, not be %s", n.What())
		return
	}
	for i, k := range n.Keys {
		f, ok := d.factor(k)
		if !ok {
			continue
		}
		list := n.Values[i]
		if list.Kind != Sequence {
			d.Fail(k.Pos, CodeType, "write "+k.Name+": [...]; a factor with one level can stand in settings", "the levels of %s must be a list", k.Name)
			continue
		}
		if len(list.Values) == 0 {
			d.Fail(list.Pos, CodeMissing, "leave the factor out, or give it levels", "%s has no levels", k.Name)
			continue
		}
		seen := map[string]bool{}
		levels := make([]string, 0, len(list.Values))
		for _, item := range list.Values {
			level, ok := d.level(f, item)
			switch {
			case !ok:
			case seen[level]:
				d.Fail(item.Pos, CodeDuplicate, "list each level once", "level %s of %s is given twice", level, k.Name)
			default:
				seen[level] = true
				levels = append(levels, level)
			}
		}
		*v.to = append(*v.to, record.FactorLevels{Factor: f.Name, Levels: levels, Unit: f.Unit})
	}
}

func (v factorsValue) Encode() *Node {
	out := &Node{Kind: Mapping}
	for _, f := range *v.to {
		list := &Node{Kind: Sequence, Style: StyleFlow}
		for _, level := range f.Levels {
			list.Values = append(list.Values, PlainNode(level))
		}
		out.Set(f.Factor, Pos{}, list)
	}
	if len(out.Keys) == 0 {
		return nil
	}
	return out
}

func (v factorsValue) Schema() *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object", Properties: jsonschema.NewProperties(), AdditionalProperties: jsonschema.FalseSchema}
	one := uint64(1)
	for _, f := range allFactors() {
		s.Properties.Set(f.Name, &jsonschema.Schema{Type: "array", MinItems: &one, UniqueItems: true,
			Description: f.description(), Items: &jsonschema.Schema{Ref: "#/$defs/" + f.Name}})
	}
	return s
}

// headersValue maps header names to values.
type headersValue struct{ to *map[string]string }

func (v headersValue) Decode(d *Decoder, n *Node) {
	if n.Kind != Mapping {
		d.Fail(n.Pos, CodeType, "as {x-user: someone}", "headers must map names to values, not be %s", n.What())
		return
	}
	out := map[string]string{}
	for i, k := range n.Keys {
		text, ok := d.Text(n.Values[i])
		if !ok {
			continue
		}
		name := textproto.CanonicalMIMEHeaderKey(k.Name)
		switch {
		case !reToken.MatchString(k.Name):
			d.Fail(k.Pos, CodeInvalid, "use letters, digits and dashes, such as x-user", "invalid header name %q", Clip(k.Name, 40))
		case slices.Contains([]string{"Host", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Expect"}, name):
			d.Fail(k.Pos, CodeConflict, "leave it out", "the generator sets %s itself", name)
		case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			d.Fail(n.Values[i].Pos, CodeInvalid, "", "the value of %s contains a control character", k.Name)
		case len(text) > 8192:
			d.Fail(n.Values[i].Pos, CodeRange, "", "the value of %s is longer than 8192 bytes", k.Name)
		case out[name] != "":
			d.Fail(k.Pos, CodeDuplicate, "", "header %s is given twice", name)
		default:
			out[name] = strings.TrimSpace(text)
		}
	}
	*v.to = out
}

func (v headersValue) Encode() *Node {
	if len(*v.to) == 0 {
		return nil
	}
	out := &Node{Kind: Mapping}
	for _, name := range slices.Sorted(maps.Keys(*v.to)) {
		out.Set(name, Pos{}, TextNode((*v.to)[name]))
	}
	return out
}

func (v headersValue) Schema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", AdditionalProperties: &jsonschema.Schema{Type: "string"}}
}

// exprValue is a CEL expression, alone or with the time it covers. Its syntax is checked where it
// is used.
type exprValue struct{ to *Expr }

func (v exprValue) object() Object {
	return Object{Name: "an assertion", Flow: true, Fields: []Field{
		{Name: "expr", Required: true, Doc: "CEL over one moment: error_share, rate (answered per second), requests, failed, latency_p50, latency_p90, latency_p99 and latency_max (ms; a failed request is infinitely late), answered_p50 and so on (of answered requests), of a sliding second, ready(service), ejected(service).", Value: Prose(&v.to.Text)},
		{Name: "after", Doc: "Step whose start begins the period; the start of the timeline if left out.", Value: Prose(&v.to.After)},
		{Name: "until", Doc: "Step whose start ends the period; the end of the timeline if left out.", Value: Prose(&v.to.Until)},
		{Name: "within", Doc: "Deadline for it to come true; with neither this nor for, it must hold throughout.", Value: Duration(&v.to.Within, 0, time.Hour).OmitZero()},
		{Name: "for", Doc: "How long it must then stay true; once is enough if left out.", Value: Duration(&v.to.For, 0, time.Hour).OmitZero()},
	}}
}

func (v exprValue) Decode(d *Decoder, n *Node) {
	v.to.Pos = n.Pos
	if n.Kind != Mapping {
		Prose(&v.to.Text).Decode(d, n)
		return
	}
	if !d.kind.spec().Moments {
		d.Fail(n.Pos, CodeKind, "write the expression alone", "assertions about moments belong to resilience, and this study is one of %s", d.kind.About())
		return
	}
	v.to.Timed = true
	v.object().Decode(d, n)
}

func (v exprValue) Encode() *Node {
	if v.to.Timed {
		return v.object().Encode()
	}
	return TextNode(v.to.Text)
}

func (v exprValue) Schema() *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string"}, v.object().Schema()}}
}

// stopValue is an optional stop rule.
type stopValue struct{ to **Stop }

func (v stopValue) object(s *Stop) Object {
	return Object{Name: "stop", Flow: true, Fields: []Field{
		{Name: "finding", Required: true, Doc: "The finding whose interval must become narrow enough.", Value: nameValue{&s.Finding, Kind.FindingNames}},
		{Name: "half_width", Required: true, Doc: "Target half-width of the interval, as a share of the estimate.", Value: Percent(&s.HalfWidth, 0, 10)},
		{Name: "of", Doc: "The cells it applies to; all that are compared with a baseline if left out.", Value: CellValue{To: &s.Of, Name: "of"}},
	}}
}

func (v stopValue) Decode(d *Decoder, n *Node) {
	if n.Kind == Scalar && n.Text == "none" {
		*v.to = nil
		return
	}
	s := &Stop{}
	v.object(s).Decode(d, n)
	*v.to = s
}

func (v stopValue) Encode() *Node {
	if *v.to == nil {
		return PlainNode("none")
	}
	return v.object(*v.to).Encode()
}

func (v stopValue) Schema() *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{v.object(&Stop{}).Schema(), {Const: "none"}}}
}
