package study

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/invopop/jsonschema"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/lazyregexp"
)

// TextValue is free text, trimmed. One that must match a pattern has a noun for
// messages, as "name", and a hint that says what is valid.
type TextValue struct {
	To      *string
	Pattern *lazyregexp.Regexp
	Noun    string
	Hint    string
	OneOf   []string
}

func (v TextValue) Decode(d *Decoder, n *Node) {
	text, ok := d.Text(n)
	if !ok {
		return
	}
	text = strings.TrimSpace(text)
	for _, r := range text {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			d.Fail(n.Pos, CodeInvalid, "", "control character %U has no place here", r)
			return
		}
	}
	switch {
	case text == "":
		d.Fail(n.Pos, CodeMissing, "give it a value or leave it out", "an empty text")
	case v.OneOf != nil && !slices.Contains(v.OneOf, text):
		d.Fail(n.Pos, CodeUnknown, errs.Suggest(text, v.OneOf), "unknown value %q", Clip(text, 40))
	case v.Pattern != nil && !v.Pattern.MatchString(text):
		d.Fail(n.Pos, CodeInvalid, v.Hint, "invalid %s %q", v.Noun, Clip(text, 80))
	default:
		*v.To = text
	}
}

func (v TextValue) Encode() *Node {
	if *v.To == "" {
		return nil
	}
	return TextNode(*v.To)
}

func (v TextValue) Schema() *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string"}
	for _, o := range v.OneOf {
		s.Enum = append(s.Enum, o)
	}
	if v.Pattern != nil {
		s.Pattern = v.Pattern.String()
	}
	return s
}

// DurationValue is a time with its unit.
type DurationValue struct {
	To        *time.Duration
	Low, High time.Duration // high 0: a week
	OmitZero  bool
}

func (v DurationValue) Decode(d *Decoder, n *Node) {
	text, ok := d.Text(n)
	if !ok {
		return
	}
	t, c := ParseDuration(text)
	if c != nil {
		d.Complain(n.Pos, c)
		return
	}
	if t < v.Low || v.High > 0 && t > v.High {
		hint := "at least " + FormatDuration(v.Low) + " is possible"
		if v.High > 0 {
			hint = fmt.Sprintf("from %s to %s is possible", FormatDuration(v.Low), FormatDuration(v.High))
		}
		d.Fail(n.Pos, CodeRange, hint, "%s is out of range", text)
		return
	}
	*v.To = t
}

func (v DurationValue) Encode() *Node {
	if v.OmitZero && *v.To == 0 {
		return nil
	}
	return PlainNode(FormatDuration(*v.To))
}

const (
	DurationPattern = `^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
	TimeOrNone      = `^(none|0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
)

func (v DurationValue) Schema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: DurationPattern, Examples: []any{"250ms", "2s", "1m30s"}}
}

// IntValue is a whole number.
type IntValue struct {
	To        *int
	Low, High int64
}

func (v IntValue) Decode(d *Decoder, n *Node) {
	text, ok := d.Text(n)
	if !ok {
		return
	}
	i, c := WholeNumber(text, v.Low, v.High)
	if c != nil {
		d.Complain(n.Pos, c)
		return
	}
	*v.To = int(i)
}

func (v IntValue) Encode() *Node { return PlainNode(strconv.Itoa(*v.To)) }

func (v IntValue) Schema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "integer",
		Minimum: json.Number(strconv.FormatInt(v.Low, 10)), Maximum: json.Number(strconv.FormatInt(v.High, 10))}
}

// SeedValue is any 64-bit number.
type SeedValue struct{ To *uint64 }

func (v SeedValue) Decode(d *Decoder, n *Node) {
	text, ok := d.Text(n)
	if !ok {
		return
	}
	i, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		d.Fail(n.Pos, CodeInvalid, "a whole number from 0 to 18446744073709551615; 0 chooses one when the run starts", "%q is no seed", Clip(text, 40))
		return
	}
	*v.To = i
}

func (v SeedValue) Encode() *Node { return PlainNode(strconv.FormatUint(*v.To, 10)) }

func (v SeedValue) Schema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "integer", Minimum: "0"}
}

// FloatValue is a plain number that is not negative.
type FloatValue struct {
	To       *float64
	High     float64
	positive bool // 0 is refused
	omitZero bool
}

func (v FloatValue) Decode(d *Decoder, n *Node) {
	text, ok := d.Text(n)
	if !ok {
		return
	}
	f, c := Number(text)
	if c != nil {
		d.Complain(n.Pos, c)
		return
	}
	switch {
	case f > v.High:
		d.Fail(n.Pos, CodeRange, "", "%s is too large", text)
	case v.positive && f == 0:
		d.Fail(n.Pos, CodeRange, "", "%s is too small: it must be more than 0", text)
	default:
		*v.To = f
	}
}

func (v FloatValue) Encode() *Node {
	if v.omitZero && *v.To == 0 {
		return nil
	}
	return PlainNode(strconv.FormatFloat(*v.To, 'f', -1, 64))
}

func (v FloatValue) Schema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "number", Minimum: "0"}
}

// BoolValue is true or false.
type BoolValue struct{ To *bool }

func (v BoolValue) Decode(d *Decoder, n *Node) {
	text, ok := d.Text(n)
	if !ok {
		return
	}
	switch text {
	case "true":
		*v.To = true
	case "false":
		*v.To = false
	default:
		d.Fail(n.Pos, CodeInvalid, "true or false", "%q is neither true nor false", Clip(text, 40))
	}
}

func (v BoolValue) Encode() *Node { return PlainNode(strconv.FormatBool(*v.To)) }

func (v BoolValue) Schema() *jsonschema.Schema { return &jsonschema.Schema{Type: "boolean"} }

// RatioValue is a percentage above 0.
type RatioValue struct{ To *Ratio }

func (v RatioValue) Decode(d *Decoder, n *Node) {
	text, ok := d.Text(n)
	if !ok {
		return
	}
	r, c := ParseRatio(text)
	if c != nil {
		d.Complain(n.Pos, c)
		return
	}
	if r <= 0 || r > 10 {
		d.Fail(n.Pos, CodeRange, "", "%s is out of range", text)
		return
	}
	*v.To = r
}

func (v RatioValue) Encode() *Node { return PlainNode(v.To.String()) }

func (v RatioValue) Schema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: `^[0-9]+(\.[0-9]+)?%$`, Examples: []any{"7.5%"}}
}

// responseValue is the size of a response, or echo.
type responseValue struct{ to *Bytes }

func (v responseValue) Decode(d *Decoder, n *Node) {
	text, ok := d.Text(n)
	if !ok {
		return
	}
	if text == Echo.String() {
		*v.to = Echo
		return
	}
	b, c := ParseBytes(text)
	if c != nil {
		c.Hint = strings.TrimPrefix(c.Hint+", or echo", ", or ")
		d.Complain(n.Pos, c)
		return
	}
	if b > maxPayload {
		d.Fail(n.Pos, CodeRange, "up to 64MiB is possible", "%s is too large", text)
		return
	}
	*v.to = b
}

func (v responseValue) Encode() *Node { return PlainNode(v.to.String()) }

func (v responseValue) Schema() *jsonschema.Schema {
	f, _ := FactorByName(FactorPayload)
	return &jsonschema.Schema{Type: "string", Pattern: strings.Replace(f.Pattern, "^", "^(echo|", 1)[:len(f.Pattern)+5] + ")$", Examples: []any{"echo", "1KiB"}}
}

// FlagValue is true or false, false left out.
type FlagValue struct{ To *bool }

func (v FlagValue) Decode(d *Decoder, n *Node) { BoolValue(v).Decode(d, n) }

func (v FlagValue) Encode() *Node {
	if !*v.To {
		return nil
	}
	return BoolValue(v).Encode()
}

func (v FlagValue) Schema() *jsonschema.Schema { return BoolValue(v).Schema() }

// WholeValue is a whole number, 0 left out.
type WholeValue struct {
	To        *int
	Low, High int64
}

func (v WholeValue) Decode(d *Decoder, n *Node) { IntValue(v).Decode(d, n) }

func (v WholeValue) Encode() *Node {
	if *v.To == 0 {
		return nil
	}
	return IntValue(v).Encode()
}

func (v WholeValue) Schema() *jsonschema.Schema { return IntValue(v).Schema() }

// PortionValue is a share from 0% to 100%, 0 left out.
type PortionValue struct {
	To       *float64
	positive bool // 0% is refused
}

func (v PortionValue) Decode(d *Decoder, n *Node) {
	text, ok := d.Text(n)
	if !ok {
		return
	}
	r, c := ParseRatio(text)
	switch {
	case c != nil:
		d.Complain(n.Pos, c)
	case r > 1:
		d.Fail(n.Pos, CodeRange, "from 0% to 100%", "%s is more than all", text)
	case v.positive && r == 0:
		d.Fail(n.Pos, CodeRange, "", "%s is too small: it must be more than 0%%", text)
	default:
		*v.To = float64(r)
	}
}

func (v PortionValue) Encode() *Node {
	if *v.To == 0 {
		return nil
	}
	return PlainNode(Ratio(*v.To).String())
}

func (v PortionValue) Schema() *jsonschema.Schema { return RatioValue{}.Schema() }

// OrNone is a value that need not be there, where its zero means something.
type OrNone[T any] struct {
	To    **T
	Value func(*T) Value
}

func (v OrNone[T]) Decode(d *Decoder, n *Node) {
	*v.To = new(T)
	v.Value(*v.To).Decode(d, n)
}

func (v OrNone[T]) Encode() *Node {
	if *v.To == nil {
		return nil
	}
	if n := v.Value(*v.To).Encode(); n != nil {
		return n
	}
	return PlainNode("0B") // sizes leave zero out
}

func (v OrNone[T]) Schema() *jsonschema.Schema { return v.Value(new(T)).Schema() }

// SizeValue is a number of bytes with its unit; 0 left out.
type SizeValue struct{ To *int64 }

func (v SizeValue) Decode(d *Decoder, n *Node) {
	text, ok := d.Text(n)
	if !ok {
		return
	}
	b, c := ParseBytes(text)
	switch {
	case c != nil:
		d.Complain(n.Pos, c)
	case b > maxPayload:
		d.Fail(n.Pos, CodeRange, "up to 64MiB is possible", "%s is too large", text)
	default:
		*v.To = int64(b)
	}
}

func (v SizeValue) Encode() *Node {
	if *v.To == 0 {
		return nil
	}
	return PlainNode(Bytes(*v.To).String())
}

func (v SizeValue) Schema() *jsonschema.Schema {
	f, _ := FactorByName(FactorPayload)
	return &jsonschema.Schema{Type: "string", Pattern: f.Pattern, Examples: []any{"1KiB"}}
}
