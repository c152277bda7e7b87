package study

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/invopop/jsonschema"
)

// value is a kind of field: how it is read from a file, written to one, and
// described to an editor. A field's value holds where its result goes.
type value interface {
	decode(d *decoder, n *node)
	encode() *node // nil: leave the field out
	schema() *jsonschema.Schema
}

// decoder collects what is wrong.
type decoder struct {
	root *node
	errs Errors
}

func (d *decoder) fail(pos Pos, hint, format string, args ...any) {
	d.errs = append(d.errs, &Error{Pos: pos, Msg: fmt.Sprintf(format, args...), Hint: hint})
}

// complain reports a complaint about a field's text.
func (d *decoder) complain(pos Pos, c *complaint) { d.fail(pos, c.hint, "%s", c.msg) }

// text returns a scalar's text.
func (d *decoder) text(n *node) (string, bool) {
	if n.kind != scalar {
		d.fail(n.pos, "", "a single value is expected here, not %s", n.what())
		return "", false
	}
	return n.text, true
}

// pos is the place of a value by its path, or of the nearest thing above it
// that the file has.
func (d *decoder) pos(path ...any) Pos {
	n, at := d.root, d.root.pos
	for _, step := range path {
		var next *node
		switch step := step.(type) {
		case string:
			for i, k := range n.keys {
				if k.name == step {
					next = n.values[i]
				}
			}
		case int:
			if n.kind == sequence && step >= 0 && step < len(n.values) {
				next = n.values[step]
			}
		}
		if next == nil {
			return at
		}
		n, at = next, next.pos
	}
	return at
}

// field is a named part of a mapping.
type field struct {
	name     string
	doc      string
	value    value
	required bool
}

// object is a mapping with fixed fields.
type object struct {
	name   string // for messages: "blocks", "the study"
	fields []field
	flow   bool // written on one line
}

func (o object) decode(d *decoder, n *node) {
	if n.kind != mapping {
		d.fail(n.pos, "its fields are "+strings.Join(o.names(), ", "), "%s must be a mapping, not %s", o.name, n.what())
		return
	}
	for i, k := range n.keys {
		f := o.find(k.name)
		if f == nil {
			d.fail(k.pos, suggest(k.name, o.names()), "unknown field %q in %s", clip(k.name, 40), o.name)
			continue
		}
		if n.values[i].kind == null {
			d.fail(k.pos, "give it a value or leave it out", "%s is empty", k.name)
			continue
		}
		f.value.decode(d, n.values[i])
	}
	for _, f := range o.fields {
		if f.required && n.get(f.name) == nil {
			d.fail(n.pos, "", "%s lacks the field %q", o.name, f.name)
		}
	}
}

func (o object) names() []string {
	out := make([]string, len(o.fields))
	for i, f := range o.fields {
		out[i] = f.name
	}
	return out
}

func (o object) find(name string) *field {
	for i := range o.fields {
		if o.fields[i].name == name {
			return &o.fields[i]
		}
	}
	return nil
}

func (o object) encode() *node {
	out := &node{kind: mapping}
	if o.flow {
		out.style = styleFlow
	}
	for _, f := range o.fields {
		if v := f.value.encode(); v != nil {
			out.set(f.name, Pos{}, v)
		}
	}
	if len(out.keys) == 0 {
		return nil
	}
	return out
}

func (o object) schema() *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object", Properties: jsonschema.NewProperties(), AdditionalProperties: jsonschema.FalseSchema}
	for _, f := range o.fields {
		p := f.value.schema()
		if p.Description == "" {
			p.Description = f.doc
		}
		s.Properties.Set(f.name, p)
		if f.required {
			s.Required = append(s.Required, f.name)
		}
	}
	return s
}

// textValue is free text, trimmed.
type textValue struct {
	to      *string
	pattern *regexp.Regexp
	hint    string
	oneOf   []string
}

func (v textValue) decode(d *decoder, n *node) {
	text, ok := d.text(n)
	if !ok {
		return
	}
	text = strings.TrimSpace(text)
	for _, r := range text {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			d.fail(n.pos, "", "control character %U has no place here", r)
			return
		}
	}
	switch {
	case text == "":
		d.fail(n.pos, "give it a value or leave it out", "an empty text")
	case v.oneOf != nil && !has(v.oneOf, text):
		d.fail(n.pos, suggest(text, v.oneOf), "unknown value %q", clip(text, 40))
	case v.pattern != nil && !v.pattern.MatchString(text):
		d.fail(n.pos, v.hint, "%q cannot stand here", clip(text, 80))
	default:
		*v.to = text
	}
}

func (v textValue) encode() *node {
	if *v.to == "" {
		return nil
	}
	return textNode(*v.to)
}

func (v textValue) schema() *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string"}
	for _, o := range v.oneOf {
		s.Enum = append(s.Enum, o)
	}
	if v.pattern != nil {
		s.Pattern = v.pattern.String()
	}
	return s
}

func has(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

// durationValue is a time with its unit.
type durationValue struct {
	to        *time.Duration
	low, high time.Duration // high 0: a week
	omitZero  bool
}

func (v durationValue) decode(d *decoder, n *node) {
	text, ok := d.text(n)
	if !ok {
		return
	}
	t, c := parseDuration(text)
	if c != nil {
		d.complain(n.pos, c)
		return
	}
	if t < v.low || v.high > 0 && t > v.high {
		hint := "at least " + formatDuration(v.low) + " is possible"
		if v.high > 0 {
			hint = fmt.Sprintf("from %s to %s is possible", formatDuration(v.low), formatDuration(v.high))
		}
		d.fail(n.pos, hint, "%s is out of range", text)
		return
	}
	*v.to = t
}

func (v durationValue) encode() *node {
	if v.omitZero && *v.to == 0 {
		return nil
	}
	return plainNode(formatDuration(*v.to))
}

const durationPattern = `^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`

func (v durationValue) schema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: durationPattern, Examples: []any{"250ms", "2s", "1m30s"}}
}

// intValue is a whole number.
type intValue struct {
	to        *int
	low, high int64
}

func (v intValue) decode(d *decoder, n *node) {
	text, ok := d.text(n)
	if !ok {
		return
	}
	i, c := wholeNumber(text, v.low, v.high)
	if c != nil {
		d.complain(n.pos, c)
		return
	}
	*v.to = int(i)
}

func (v intValue) encode() *node { return plainNode(strconv.Itoa(*v.to)) }

func (v intValue) schema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "integer",
		Minimum: json.Number(strconv.FormatInt(v.low, 10)), Maximum: json.Number(strconv.FormatInt(v.high, 10))}
}

// seedValue is any 64-bit number.
type seedValue struct{ to *uint64 }

func (v seedValue) decode(d *decoder, n *node) {
	text, ok := d.text(n)
	if !ok {
		return
	}
	i, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		d.fail(n.pos, "a whole number from 0 to 18446744073709551615; 0 chooses one when the run starts", "%q is no seed", clip(text, 40))
		return
	}
	*v.to = i
}

func (v seedValue) encode() *node { return plainNode(strconv.FormatUint(*v.to, 10)) }

func (v seedValue) schema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "integer", Minimum: "0"}
}

// floatValue is a plain number that is not negative.
type floatValue struct {
	to       *float64
	high     float64
	omitZero bool
}

func (v floatValue) decode(d *decoder, n *node) {
	text, ok := d.text(n)
	if !ok {
		return
	}
	f, c := number(text)
	if c != nil {
		d.complain(n.pos, c)
		return
	}
	if f > v.high {
		d.fail(n.pos, "", "%s is too large", text)
		return
	}
	*v.to = f
}

func (v floatValue) encode() *node {
	if v.omitZero && *v.to == 0 {
		return nil
	}
	return plainNode(strconv.FormatFloat(*v.to, 'f', -1, 64))
}

func (v floatValue) schema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "number", Minimum: "0"}
}

// boolValue is true or false.
type boolValue struct{ to *bool }

func (v boolValue) decode(d *decoder, n *node) {
	text, ok := d.text(n)
	if !ok {
		return
	}
	switch text {
	case "true":
		*v.to = true
	case "false":
		*v.to = false
	default:
		d.fail(n.pos, "true or false", "%q is neither true nor false", clip(text, 40))
	}
}

func (v boolValue) encode() *node { return plainNode(strconv.FormatBool(*v.to)) }

func (v boolValue) schema() *jsonschema.Schema { return &jsonschema.Schema{Type: "boolean"} }

// ratioValue is a percentage above 0.
type ratioValue struct{ to *Ratio }

func (v ratioValue) decode(d *decoder, n *node) {
	text, ok := d.text(n)
	if !ok {
		return
	}
	r, c := parseRatio(text)
	if c != nil {
		d.complain(n.pos, c)
		return
	}
	if r <= 0 || r > 10 {
		d.fail(n.pos, "", "%s is out of range", text)
		return
	}
	*v.to = r
}

func (v ratioValue) encode() *node { return plainNode(v.to.String()) }

func (v ratioValue) schema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: `^[0-9]+(\.[0-9]+)?%$`, Examples: []any{"7.5%"}}
}

// responseValue is the size of a response, or echo.
type responseValue struct{ to *Bytes }

func (v responseValue) decode(d *decoder, n *node) {
	text, ok := d.text(n)
	if !ok {
		return
	}
	if text == Echo.String() {
		*v.to = Echo
		return
	}
	b, c := parseBytes(text)
	if c != nil {
		c.hint = strings.TrimPrefix(c.hint+", or echo", ", or ")
		d.complain(n.pos, c)
		return
	}
	if b > maxPayload {
		d.fail(n.pos, "up to 64MiB is possible", "%s is too large", text)
		return
	}
	*v.to = b
}

func (v responseValue) encode() *node { return plainNode(v.to.String()) }

func (v responseValue) schema() *jsonschema.Schema {
	f, _ := FactorByName(FactorPayload)
	return &jsonschema.Schema{Type: "string", Pattern: strings.Replace(f.Pattern, "^", "^(echo|", 1)[:len(f.Pattern)+5] + ")$", Examples: []any{"echo", "1KiB"}}
}

// listValue is a list of values of one kind.
type listValue[T any] struct {
	to      *[]T
	element func(*T) value
	least   int
	flow    bool
}

func (v listValue[T]) decode(d *decoder, n *node) {
	if n.kind != sequence {
		d.fail(n.pos, "", "a list is expected here, not %s", n.what())
		return
	}
	if len(n.values) < v.least {
		d.fail(n.pos, "", "the list is empty")
		return
	}
	out := make([]T, len(n.values))
	for i, item := range n.values {
		if item.kind == null {
			d.fail(item.pos, "", "an entry of the list is empty")
			continue
		}
		v.element(&out[i]).decode(d, item)
	}
	if *v.to = out; len(out) == 0 {
		*v.to = nil
	}
}

func (v listValue[T]) encode() *node {
	if len(*v.to) == 0 {
		return nil
	}
	out := &node{kind: sequence}
	if v.flow {
		out.style = styleFlow
	}
	for i := range *v.to {
		out.values = append(out.values, v.element(&(*v.to)[i]).encode())
	}
	return out
}

func (v listValue[T]) schema() *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "array", Items: v.element(new(T)).schema()}
	if v.least > 0 {
		least := uint64(v.least)
		s.MinItems = &least
	}
	return s
}
