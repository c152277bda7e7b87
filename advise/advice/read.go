package advice

import (
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/lazyregexp"
	"github.com/meshtrial/meshtrial/internal/yamltree"
	"github.com/meshtrial/meshtrial/study"
)

// format bounds a file of rules.
var format = yamltree.Format{What: "table of rules", Bytes: 1 << 20, Tokens: 100_000, Values: 50_000, Depth: 12}

var reName = lazyregexp.New(`^[a-z][a-z0-9_]*$`)

// units are those that quantities may have.
var units = []string{"s", "ratio", "1/s", "bytes", "bytes/s", "cores", "us/request"}

// Read reads a table of rules, checks it and compiles its expressions. Its error
// gives file, line and column, and is one of usage (exit code 2).
func Read(file string, data []byte) (*Rules, error) {
	d := decoder{file: file, lines: yamltree.Lines(data)}
	root, fault := yamltree.Read(data, format)
	switch {
	case fault != nil:
		return nil, d.pos(fault.Line, fault.Column).Errorf(fault.Hint, "%s", fault.Msg)
	case root == nil:
		return nil, errs.Usage("%s: holds no rules", file)
	}
	r := &Rules{}
	top := d.mapping(root, "a table of rules", "quantities", "rules")
	for _, n := range d.list(top["quantities"]) {
		r.Quantities = append(r.Quantities, d.quantity(n))
	}
	if d.err == nil {
		d.compileQuantities(r)
	}
	for _, n := range d.list(top["rules"]) {
		if d.err != nil {
			break
		}
		rule := d.rule(n, r)
		if slices.ContainsFunc(r.Rules, func(o Rule) bool { return o.ID == rule.ID }) {
			d.fail(n, "", "rule %s stands twice", rule.ID)
		}
		r.Rules = append(r.Rules, rule)
	}
	if d.err == nil && len(r.Rules) == 0 {
		d.fail(root, "", "the table has no rules")
	}
	return r, d.err
}

// decoder reads nodes; after the first fault it reads nothing more.
type decoder struct {
	file  string
	lines []string
	err   error
	env   *cel.Env
	known []string // quantities
}

func (d *decoder) pos(line, column int) study.Pos {
	p := study.Pos{File: d.file, Line: line, Column: column}
	if line > 0 && line <= len(d.lines) {
		p.Text = d.lines[line-1]
	}
	return p
}

func (d *decoder) fail(n *yamltree.Node, hint, format string, args ...any) {
	if d.err == nil {
		d.err = d.pos(n.Line, n.Column).Errorf(hint, format, args...)
	}
}

func (d *decoder) keep(err error) {
	if d.err == nil {
		d.err = err
	}
}

// mapping reads a mapping that has no other fields than those named. A field that is
// to be there begins with "!".
func (d *decoder) mapping(n *yamltree.Node, what string, fields ...string) map[string]*yamltree.Node {
	out := map[string]*yamltree.Node{}
	if d.err != nil || n == nil {
		return out
	}
	if n.Kind != yamltree.Mapping {
		d.fail(n, "", "%s is %s, not a mapping", what, n.Kind)
		return out
	}
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = strings.TrimPrefix(f, "!")
	}
	for i, key := range n.Keys {
		if !slices.Contains(names, key.Text) {
			d.fail(key, errs.Suggest(key.Text, names), "%s has no field %q", what, key.Text)
		}
		out[key.Text] = n.Values[i]
	}
	for i, f := range fields {
		if f != names[i] && out[names[i]] == nil {
			d.fail(n, "", "%s lacks the field %s", what, names[i])
		}
	}
	return out
}

func (d *decoder) list(n *yamltree.Node) []*yamltree.Node {
	if d.err != nil || n == nil {
		return nil
	}
	if n.Kind != yamltree.Sequence {
		d.fail(n, "", "this is %s, not a list", n.Kind)
		return nil
	}
	return n.Values
}

func (d *decoder) text(n *yamltree.Node) string {
	if d.err != nil || n == nil {
		return ""
	}
	if n.Kind != yamltree.Scalar || strings.TrimSpace(n.Text) == "" {
		d.fail(n, "", "this is to be a text that is not empty")
		return ""
	}
	return strings.TrimSpace(n.Text)
}

func (d *decoder) texts(n *yamltree.Node) []string {
	var out []string
	for _, one := range d.list(n) {
		out = append(out, d.text(one))
	}
	return out
}

func (d *decoder) flag(n *yamltree.Node) bool {
	switch text := d.text(n); text {
	case "", "false":
		return false
	case "true":
		return true
	}
	d.fail(n, "", "this is to be true or false")
	return false
}

// quantity reads a quantity; its expressions in CEL are compiled when all are known.
func (d *decoder) quantity(n *yamltree.Node) Quantity {
	m := d.mapping(n, "a quantity", "!name", "unit", "!words", "!from", "measure")
	q := Quantity{Name: d.text(m["name"]), Unit: d.text(m["unit"]), Words: d.text(m["words"]), Measure: d.text(m["measure"])}
	if d.err != nil {
		return q
	}
	switch {
	case !reName.MatchString(q.Name) || slices.Contains(textMaps, q.Name):
		d.fail(m["name"], "lower-case letters, digits and _", "%q is no name of a quantity", q.Name)
	case slices.Contains(d.known, q.Name):
		d.fail(m["name"], "", "quantity %s stands twice", q.Name)
	case q.Unit != "" && !slices.Contains(units, q.Unit):
		d.fail(m["unit"], "units are "+strings.Join(units, ", "), "unknown unit %q", q.Unit)
	}
	d.known = append(d.known, q.Name)
	for _, from := range d.list(m["from"]) {
		q.From = append(q.From, d.origin(from))
	}
	return q
}

func (d *decoder) origin(n *yamltree.Node) Origin {
	m := d.mapping(n, "an origin", "promql", "finding", "fact", "cel")
	o := Origin{PromQL: d.text(m["promql"]), Finding: d.text(m["finding"]), Fact: d.text(m["fact"]), CEL: d.expr(m["cel"])}
	switch {
	case d.err != nil:
	case len(n.Keys) != 1:
		d.fail(n, "", "an origin is one of promql, finding, fact and cel")
	case o.PromQL != "":
		if _, err := newParser().ParseExpr(expand(o.PromQL)); err != nil {
			d.fail(m["promql"], "", "PromQL: %v", err)
		}
	case o.Finding != "" && !study.IsFinding(o.Finding):
		d.fail(m["finding"], errs.Suggest(o.Finding, study.FindingNames()), "unknown finding %q", o.Finding)
	}
	return o
}

func newParser() parser.Parser { return parser.NewParser(parser.Options{}) }

// expand fills an expression's places, to be checked and looked at.
func expand(promql string) string {
	return strings.NewReplacer("$w", "1m", "{$i}", "", "$,", "", "$p", "", "$c", "", "$d", "").Replace(promql)
}

func (d *decoder) expr(n *yamltree.Node) *expr {
	text := d.text(n)
	if d.err != nil || text == "" {
		return nil
	}
	return &expr{Expr: study.Expr{Text: text, Pos: d.pos(n.Line, n.Column)}}
}

func (d *decoder) compileQuantities(r *Rules) {
	var err error
	if d.env, err = newEnv(r.Quantities); err != nil {
		d.keep(err)
		return
	}
	for i, q := range r.Quantities {
		for _, o := range q.From {
			if o.CEL != nil && d.err == nil {
				d.keep(o.CEL.compile(d.env, cel.DoubleType, d.known, d.known[:i]))
			}
		}
	}
}

// condition reads an expression that is true or false, number one that gives a number.
func (d *decoder) condition(n *yamltree.Node) *expr { return d.compiled(n, cel.BoolType) }
func (d *decoder) number(n *yamltree.Node) *expr    { return d.compiled(n, cel.DoubleType) }

func (d *decoder) compiled(n *yamltree.Node, want *cel.Type) *expr {
	e := d.expr(n)
	if e != nil && d.err == nil {
		d.keep(e.compile(d.env, want, d.known, d.known))
	}
	return e
}
