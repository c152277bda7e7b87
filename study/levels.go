package study

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/lazyregexp"
	"github.com/meshtrial/meshtrial/record/rate"
)

// Complain returns an error in a piece of text; the caller adds its position.
func Complain(code Code, hint, format string, args ...any) *Error {
	return &Error{Code: code, Msg: fmt.Sprintf(format, args...), Args: args, Hint: hint}
}

func Choice(name string, scope Scope, def, doc string, levels ...string) Factor {
	f := Factor{Name: name, Scope: scope, Default: def, Doc: doc, Levels: levels}
	return f.Amongst(func() []string { return levels })
}

// Amongst restricts a factor to the levels returned when a level is parsed.
func (f Factor) Amongst(levels func() []string) Factor {
	f.Parse = func(s string) (string, *Error) {
		if all := levels(); !slices.Contains(all, s) {
			return "", Complain(CodeUnknown, errs.Suggest(s, all), "unknown level %q", Clip(s, 40))
		}
		return s, nil
	}
	return f
}

var (
	reNumber    = lazyregexp.New(`^[0-9]+(_[0-9]+)*(\.[0-9]+)?$`)
	UnitPattern = lazyregexp.New(`^([0-9]+(?:_[0-9]+)*(?:\.[0-9]+)?)\s*([A-Za-z/]*)$`)
)

// Number parses a plain decimal number and recognizes common mistakes.
func Number(s string) (float64, *Error) {
	switch strings.ToLower(strings.TrimLeft(s, "+-")) {
	case "nan", ".nan", "inf", ".inf", "infinity":
		return 0, Complain(CodeInvalid, "", "%s is not a usable number", s)
	case "":
		return 0, Complain(CodeMissing, "", "a number is missing")
	}
	if strings.HasPrefix(s, "-") {
		return 0, Complain(CodeRange, "", "%s is negative", s)
	}
	if !reNumber.MatchString(s) {
		return 0, noNumber(s)
	}
	v, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	if err != nil || math.IsInf(v, 0) {
		return 0, Complain(CodeRange, "", "%s is too large", s)
	}
	return v, nil
}

var (
	reExponent  = lazyregexp.New(`^[0-9]+(\.[0-9]+)?[eE][+-]?[0-9]+$`)
	reThousands = lazyregexp.New(`^[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?$`)
	reDecimal   = lazyregexp.New(`^[0-9]+,[0-9]+$`)
	reList      = lazyregexp.New(`^[0-9._]+(,\s*[0-9._]+)+$`)
)

// noNumber guesses the intent of a text that is not a plain number.
func noNumber(s string) *Error {
	const writable = 1e15 // below, floats are exact and such a number is easy to read
	switch {
	case reExponent.MatchString(s):
		hint := "write the number out, without an exponent"
		if v, err := strconv.ParseFloat(s, 64); err == nil && v < writable && (v == 0 || v > 1/writable) {
			hint = "write " + strconv.FormatFloat(v, 'f', -1, 64)
		}
		return Complain(CodeInvalid, hint, "%q has an exponent", s)
	case reThousands.MatchString(s):
		return Complain(CodeInvalid, "write "+strings.ReplaceAll(s, ",", ""), "%q is not a number", s)
	case reDecimal.MatchString(s):
		return Complain(CodeInvalid, fmt.Sprintf("write %s with a decimal point, or [%s] for a list", strings.Replace(s, ",", ".", 1), s), "%q is not a number", s)
	case reList.MatchString(s):
		return Complain(CodeInvalid, "write a list in brackets, ["+Clip(s, 60)+"]", "%q is not a number", Clip(s, 60))
	}
	return Complain(CodeInvalid, "", "%q is not a number", Clip(s, 60))
}

func WholeNumber(s string, low, high int64) (int64, *Error) {
	v, c := Number(s)
	if c != nil {
		return 0, c
	}
	if v != math.Trunc(v) || strings.Contains(s, ".") {
		return 0, Complain(CodeInvalid, "", "%s is not a whole number", s)
	}
	if v < float64(low) || v > float64(high) {
		return 0, Complain(CodeRange, fmt.Sprintf("use a number from %d to %d", low, high), "%s is out of range", s)
	}
	return int64(v), nil
}

func IntegerLevel(low, high int64) func(string) (string, *Error) {
	return func(s string) (string, *Error) {
		v, c := WholeNumber(s, low, high)
		if c != nil {
			return "", c
		}
		return strconv.FormatInt(v, 10), nil
	}
}

const maxRate = rate.Highest

func RateLevel(s string) (string, *Error) {
	if s == rate.Word {
		return s, nil
	}
	if m := UnitPattern.FindStringSubmatch(s); m != nil && m[2] != "" {
		return "", Complain(CodeUnit, "the unit is always requests per second: write "+m[1]+", or max", "%q has a unit", s)
	}
	v, c := Number(s)
	if c != nil {
		if c.Hint == "" {
			c.Hint = "a number of requests per second, or max"
		}
		return "", c
	}
	if v <= 0 || v > maxRate {
		return "", Complain(CodeRange, "use a rate above 0, up to 10000000 requests per second, or max", "rate %s is out of range", s)
	}
	return strconv.FormatFloat(v, 'f', -1, 64), nil
}

// MaxPayload limits the size of a request or response body.
const MaxPayload = 64 << 20

func payloadLevel(s string) (string, *Error) {
	b, c := ParseBytes(s)
	if c != nil {
		return "", c
	}
	if b > MaxPayload {
		return "", Complain(CodeRange, "use at most 64MiB", "%s is too large", s)
	}
	return b.String(), nil
}

func CPULevel(s string) (string, *Error) {
	if s == CPULimitNone {
		return s, nil
	}
	const hint = "use Kubernetes notation, such as 500m or 2, or none"
	text, milli := strings.CutSuffix(s, "m")
	v, c := Number(text)
	if c != nil {
		c.Hint = hint
		return "", c
	}
	if !milli {
		v *= 1000
	}
	if math.Abs(v-math.Round(v)) > 1e-6 {
		return "", Complain(CodeRange, "the smallest unit is 1m, a thousandth of a CPU", "%s is too fine", s)
	}
	m := int64(math.Round(v))
	if m < 10 || v > 1_000_000 {
		return "", Complain(CodeRange, "use a limit from 10m to 1000, or none", "CPU limit %s is out of range", s)
	}
	if m%1000 == 0 {
		return strconv.FormatInt(m/1000, 10), nil
	}
	return strconv.FormatInt(m, 10) + "m", nil
}

var VersionPattern = lazyregexp.New(`^v?(0|[1-9][0-9]{0,3})\.(0|[1-9][0-9]{0,3})\.(0|[1-9][0-9]{0,3})$`)

func bytesValue(level string) (float64, bool) {
	b, c := ParseBytes(level)
	return float64(b), c == nil
}

func CPUValue(level string) (float64, bool) {
	text, milli := strings.CutSuffix(level, "m")
	v, err := strconv.ParseFloat(text, 64)
	if milli {
		v /= 1000
	}
	return v, err == nil
}

func SecondsValue(level string) (float64, bool) {
	t, c := ParseDuration(level)
	return t.Seconds(), c == nil
}
