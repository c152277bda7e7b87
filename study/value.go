package study

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/invopop/jsonschema"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/lazyregexp"
)

// textValue is free text, trimmed. One that must match a pattern has a noun for
// messages, as "name", and a hint that says what is valid.
type textValue struct {
	to      *string
	pattern *lazyregexp.Regexp
	noun    string
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
			d.fail(n.pos, CodeInvalid, "", "control character %U has no place here", r)
			return
		}
	}
	switch {
	case text == "":
		d.fail(n.pos, CodeMissing, "give it a value or leave it out", "an empty text")
	case v.oneOf != nil && !has(v.oneOf, text):
		d.fail(n.pos, CodeUnknown, errs.Suggest(text, v.oneOf), "unknown value %q", clip(text, 40))
	case v.pattern != nil && !v.pattern.MatchString(text):
		d.fail(n.pos, CodeInvalid, v.hint, "invalid %s %q", v.noun, clip(text, 80))
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
		d.fail(n.pos, CodeRange, hint, "%s is out of range", text)
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

const (
	durationPattern = `^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
	timeOrNone      = `^(none|0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
)

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
		d.fail(n.pos, CodeInvalid, "a whole number from 0 to 18446744073709551615; 0 chooses one when the run starts", "%q is no seed", clip(text, 40))
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
	positive bool // 0 is refused
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
	switch {
	case f > v.high:
		d.fail(n.pos, CodeRange, "", "%s is too large", text)
	case v.positive && f == 0:
		d.fail(n.pos, CodeRange, "", "%s is too small: it must be more than 0", text)
	default:
		*v.to = f
	}
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
		d.fail(n.pos, CodeInvalid, "true or false", "%q is neither true nor false", clip(text, 40))
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
		d.fail(n.pos, CodeRange, "", "%s is out of range", text)
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
		c.Hint = strings.TrimPrefix(c.Hint+", or echo", ", or ")
		d.complain(n.pos, c)
		return
	}
	if b > maxPayload {
		d.fail(n.pos, CodeRange, "up to 64MiB is possible", "%s is too large", text)
		return
	}
	*v.to = b
}

func (v responseValue) encode() *node { return plainNode(v.to.String()) }

func (v responseValue) schema() *jsonschema.Schema {
	f, _ := FactorByName(FactorPayload)
	return &jsonschema.Schema{Type: "string", Pattern: strings.Replace(f.Pattern, "^", "^(echo|", 1)[:len(f.Pattern)+5] + ")$", Examples: []any{"echo", "1KiB"}}
}

// flagValue is true or false, false left out.
type flagValue struct{ to *bool }

func (v flagValue) decode(d *decoder, n *node) { boolValue(v).decode(d, n) }

func (v flagValue) encode() *node {
	if !*v.to {
		return nil
	}
	return boolValue(v).encode()
}

func (v flagValue) schema() *jsonschema.Schema { return boolValue(v).schema() }

// wholeValue is a whole number, 0 left out.
type wholeValue struct {
	to        *int
	low, high int64
}

func (v wholeValue) decode(d *decoder, n *node) { intValue(v).decode(d, n) }

func (v wholeValue) encode() *node {
	if *v.to == 0 {
		return nil
	}
	return intValue(v).encode()
}

func (v wholeValue) schema() *jsonschema.Schema { return intValue(v).schema() }

// portionValue is a share from 0% to 100%, 0 left out.
type portionValue struct {
	to       *float64
	positive bool // 0% is refused
}

func (v portionValue) decode(d *decoder, n *node) {
	text, ok := d.text(n)
	if !ok {
		return
	}
	r, c := parseRatio(text)
	switch {
	case c != nil:
		d.complain(n.pos, c)
	case r > 1:
		d.fail(n.pos, CodeRange, "from 0% to 100%", "%s is more than all", text)
	case v.positive && r == 0:
		d.fail(n.pos, CodeRange, "", "%s is too small: it must be more than 0%%", text)
	default:
		*v.to = float64(r)
	}
}

func (v portionValue) encode() *node {
	if *v.to == 0 {
		return nil
	}
	return plainNode(Ratio(*v.to).String())
}

func (v portionValue) schema() *jsonschema.Schema { return ratioValue{}.schema() }

// orNone is a value that need not be there, where its zero means something.
type orNone[T any] struct {
	to    **T
	value func(*T) value
}

func (v orNone[T]) decode(d *decoder, n *node) {
	*v.to = new(T)
	v.value(*v.to).decode(d, n)
}

func (v orNone[T]) encode() *node {
	if *v.to == nil {
		return nil
	}
	if n := v.value(*v.to).encode(); n != nil {
		return n
	}
	return plainNode("0B") // sizes leave zero out
}

func (v orNone[T]) schema() *jsonschema.Schema { return v.value(new(T)).schema() }

// sizeValue is a number of bytes with its unit; 0 left out.
type sizeValue struct{ to *int64 }

func (v sizeValue) decode(d *decoder, n *node) {
	text, ok := d.text(n)
	if !ok {
		return
	}
	b, c := parseBytes(text)
	switch {
	case c != nil:
		d.complain(n.pos, c)
	case b > maxPayload:
		d.fail(n.pos, CodeRange, "up to 64MiB is possible", "%s is too large", text)
	default:
		*v.to = int64(b)
	}
}

func (v sizeValue) encode() *node {
	if *v.to == 0 {
		return nil
	}
	return plainNode(Bytes(*v.to).String())
}

func (v sizeValue) schema() *jsonschema.Schema {
	f, _ := FactorByName(FactorPayload)
	return &jsonschema.Schema{Type: "string", Pattern: f.Pattern, Examples: []any{"1KiB"}}
}
