package study

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Bytes is a size, written with a unit: 0B, 1KiB, 1500B.
type Bytes int64

// Echo as the size of a response means the size of the request's body.
const Echo Bytes = -1

var byteUnits = []struct {
	name string
	size int64
}{{"MiB", 1 << 20}, {"KiB", 1 << 10}, {"MB", 1_000_000}, {"kB", 1000}, {"B", 1}}

// String writes the size in the largest binary unit that holds it exactly.
func (b Bytes) String() string {
	if b == Echo {
		return "echo"
	}
	for _, u := range byteUnits[:2] {
		if b > 0 && int64(b)%u.size == 0 {
			return strconv.FormatInt(int64(b)/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10) + "B"
}

// MaxBytes keeps sizes in the range where float64 is exact.
const MaxBytes = 1 << 50

func ParseBytes(s string) (Bytes, *Error) {
	const hint = "write bytes as 512B, 1KiB (1024 bytes) or 1kB (1000 bytes)"
	if strings.HasPrefix(s, "-") {
		return 0, Complain(CodeRange, "", "%s is negative", s)
	}
	m := UnitPattern.FindStringSubmatch(s)
	if m == nil {
		return 0, Complain(CodeInvalid, hint, "%q is not a size", s)
	}
	v, c := Number(m[1])
	if c != nil {
		return 0, c
	}
	if m[2] == "" {
		if v == 0 {
			return 0, nil
		}
		return 0, Complain(CodeUnit, hint, "%q lacks a unit", s)
	}
	for _, u := range byteUnits {
		if u.name != m[2] {
			continue
		}
		v *= float64(u.size)
		if v > MaxBytes {
			return 0, Complain(CodeRange, "", "%s is too large", s)
		}
		if v != math.Trunc(v) {
			return 0, Complain(CodeInvalid, "", "%s is not a whole number of bytes", s)
		}
		return Bytes(v), nil
	}
	return 0, Complain(CodeUnit, hint, "unknown unit %q of a size", m[2])
}

// Ratio is a plain fraction, written as a percentage: 7.5%.
type Ratio float64

// String writes the ratio as a percentage.
func (r Ratio) String() string {
	// Shift the decimal point in the text: 0.073 times 100 is not 7.3 in binary.
	whole, part, _ := strings.Cut(strconv.FormatFloat(float64(r), 'f', -1, 64), ".")
	part += "00"
	text := strings.TrimLeft(whole+part[:2], "0")
	if text == "" {
		text = "0"
	}
	if rest := strings.TrimRight(part[2:], "0"); rest != "" {
		text += "." + rest
	}
	return text + "%"
}

func ParseRatio(s string) (Ratio, *Error) {
	text, ok := strings.CutSuffix(s, "%")
	if !ok {
		return 0, Complain(CodeUnit, "write a percentage, such as 7.5%", "%q lacks its unit", s)
	}
	text = strings.TrimSpace(text)
	if _, c := Number(text); c != nil {
		return 0, c
	}
	// Parse the decimal text, so that 7.3% is the float nearest to 0.073.
	r, err := strconv.ParseFloat(strings.ReplaceAll(text, "_", "")+"e-2", 64)
	if err != nil {
		return 0, Complain(CodeInvalid, "", "%q is not a percentage", s)
	}
	return Ratio(r), nil
}

const maxDuration = 7 * 24 * time.Hour

func ParseDuration(s string) (time.Duration, *Error) {
	const hint = "write a time with its unit: 250ms, 2s, 1m30s"
	if strings.HasPrefix(s, "-") {
		return 0, Complain(CodeRange, "", "%s is negative", s)
	}
	if s == "0" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		if reNumber.MatchString(s) {
			return 0, Complain(CodeUnit, hint, "%q lacks a unit", s)
		}
		return 0, Complain(CodeInvalid, hint, "%q is not a duration", s)
	}
	if d > maxDuration {
		return 0, Complain(CodeRange, "use at most a week", "%s is too long", s)
	}
	return d, nil
}

// FormatDuration formats whole units briefly: 2s, 1m30s, 250ms.
func FormatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
