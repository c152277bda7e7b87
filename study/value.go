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

// Single is a field with one value, read from and written as text.
type Single[T comparable] struct {
	to     *T
	parse  func(text string) (T, *Error)
	write  func(T) *Node
	schema jsonschema.Schema
	omit   bool
}

// Parsed returns a field with its own text format.
func Parsed[T comparable](to *T, parse func(string) (T, *Error), write func(T) string, schema jsonschema.Schema) Single[T] {
	return Single[T]{to: to, parse: parse, write: func(x T) *Node { return PlainNode(write(x)) }, schema: schema}
}

// OmitZero omits the field from a file if it is zero.
func (v Single[T]) OmitZero() Single[T] { v.omit = true; return v }

// Positive rejects zero.
func (v Single[T]) Positive() Single[T] {
	parse := v.parse
	v.parse = func(text string) (T, *Error) {
		var zero T
		x, c := parse(text)
		if c == nil && x == zero {
			c = Complain(CodeRange, "", "%s is too small: it must be more than 0", text)
		}
		return x, c
	}
	return v
}

func (v Single[T]) Decode(d *Decoder, n *Node) {
	text, ok := d.Text(n)
	if !ok {
		return
	}
	x, c := v.parse(text)
	if c != nil {
		d.Complain(n.Pos, c)
		return
	}
	*v.to = x
}

func (v Single[T]) Encode() *Node {
	var zero T
	if v.omit && *v.to == zero {
		return nil
	}
	return v.write(*v.to)
}

func (v Single[T]) Schema() *jsonschema.Schema { return &v.schema }

// Prose is free text with surrounding space trimmed.
func Prose(to *string) Single[string] {
	return words(to, jsonschema.Schema{}, func(string) *Error { return nil })
}

// Named is text that matches a pattern. Messages call it by its noun, such as "name"; the hint
// describes valid text.
func Named(to *string, pattern *lazyregexp.Regexp, noun, hint string) Single[string] {
	return words(to, jsonschema.Schema{Pattern: pattern.String()}, func(text string) *Error {
		if pattern.MatchString(text) {
			return nil
		}
		return Complain(CodeInvalid, hint, "invalid %s %q", noun, Clip(text, 80))
	})
}

// OneOf is one of the given words.
func OneOf(to *string, all ...string) Single[string] {
	var enum []any
	for _, o := range all {
		enum = append(enum, o)
	}
	return words(to, jsonschema.Schema{Enum: enum}, func(text string) *Error {
		if slices.Contains(all, text) {
			return nil
		}
		return Complain(CodeUnknown, errs.Suggest(text, all), "unknown value %q", Clip(text, 40))
	})
}

// words is non-empty text that check may reject.
func words(to *string, schema jsonschema.Schema, check func(string) *Error) Single[string] {
	schema.Type = "string"
	parse := func(text string) (string, *Error) {
		text = strings.TrimSpace(text)
		for _, r := range text {
			if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
				return "", Complain(CodeInvalid, "", "control character %U is not allowed", r)
			}
		}
		if text == "" {
			return "", Complain(CodeMissing, "give it a value or leave it out", "an empty text")
		}
		return text, check(text)
	}
	return Single[string]{to, parse, TextNode, schema, true}
}

const (
	DurationPattern = `^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
	TimeOrNone      = `^(none|0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
)

// Duration is a time with a unit; high 0 means a week.
func Duration(to *time.Duration, low, high time.Duration) Single[time.Duration] {
	parse := func(text string) (time.Duration, *Error) {
		t, c := ParseDuration(text)
		if c == nil && (t < low || high > 0 && t > high) {
			hint := "use at least " + FormatDuration(low)
			if high > 0 {
				hint = fmt.Sprintf("use a value from %s to %s", FormatDuration(low), FormatDuration(high))
			}
			c = Complain(CodeRange, hint, "%s is out of range", text)
		}
		return t, c
	}
	return Parsed(to, parse, FormatDuration, jsonschema.Schema{Type: "string", Pattern: DurationPattern, Examples: []any{"250ms", "2s", "1m30s"}})
}

// Int is a whole number.
func Int(to *int, low, high int64) Single[int] {
	parse := func(text string) (int, *Error) {
		i, c := WholeNumber(text, low, high)
		return int(i), c
	}
	return Parsed(to, parse, strconv.Itoa, jsonschema.Schema{Type: "integer",
		Minimum: json.Number(strconv.FormatInt(low, 10)), Maximum: json.Number(strconv.FormatInt(high, 10))})
}

// Seed is any 64-bit number.
func Seed(to *uint64) Single[uint64] {
	parse := func(text string) (uint64, *Error) {
		i, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return 0, Complain(CodeInvalid, "use a whole number from 0 to 18446744073709551615; 0 chooses one when the run starts", "%q is not a seed", Clip(text, 40))
		}
		return i, nil
	}
	return Parsed(to, parse, func(x uint64) string { return strconv.FormatUint(x, 10) }, jsonschema.Schema{Type: "integer", Minimum: "0"})
}

// Float is a plain, non-negative number.
func Float(to *float64, high float64) Single[float64] {
	parse := func(text string) (float64, *Error) {
		f, c := Number(text)
		if c == nil && f > high {
			c = Complain(CodeRange, "", "%s is too large", text)
		}
		return f, c
	}
	return Parsed(to, parse, func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }, jsonschema.Schema{Type: "number", Minimum: "0"})
}

// Bool is true or false.
func Bool(to *bool) Single[bool] {
	parse := func(text string) (bool, *Error) {
		if text != "true" && text != "false" {
			return false, Complain(CodeInvalid, "true or false", "%q is neither true nor false", Clip(text, 40))
		}
		return text == "true", nil
	}
	return Parsed(to, parse, strconv.FormatBool, jsonschema.Schema{Type: "boolean"})
}

var percent = jsonschema.Schema{Type: "string", Pattern: `^[0-9]+(\.[0-9]+)?%$`, Examples: []any{"7.5%"}}

// Percent is a percentage above 0.
func Percent(to *Ratio, low, high Ratio) Single[Ratio] {
	parse := func(text string) (Ratio, *Error) {
		r, c := ParseRatio(text)
		if c == nil && (r == 0 || r < low || r > high) {
			c = Complain(CodeRange, fmt.Sprintf("use a value above %s, up to %s", low, high), "%s is out of range", text)
			if low > 0 {
				c.Hint = fmt.Sprintf("use a value from %s to %s", low, high)
			}
		}
		return r, c
	}
	return Parsed(to, parse, Ratio.String, percent)
}

// Portion is a share from 0% to 100%.
func Portion(to *float64) Single[float64] {
	parse := func(text string) (float64, *Error) {
		r, c := ParseRatio(text)
		if c == nil && r > 1 {
			c = Complain(CodeRange, "from 0% to 100%", "%s is more than 100%%", text)
		}
		return float64(r), c
	}
	return Parsed(to, parse, func(x float64) string { return Ratio(x).String() }, percent)
}

// Size is a number of bytes with a unit.
func Size(to *int64, most Bytes) Single[int64] {
	parse := func(text string) (int64, *Error) {
		b, c := ParseBytes(text)
		if c == nil && b > most {
			c = Complain(CodeRange, "use at most "+most.String(), "%s is too large", text)
		}
		return int64(b), c
	}
	return Parsed(to, parse, func(n int64) string { return Bytes(n).String() }, jsonschema.Schema{Type: "string", Pattern: Payload.Pattern, Examples: []any{"1KiB"}})
}

// OrNone is an optional value whose zero means something.
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
	return v.Value(*v.To).Encode()
}

func (v OrNone[T]) Schema() *jsonschema.Schema { return v.Value(new(T)).Schema() }
