// Package words formats figures as people do: in the unit a reader would choose, with two or
// three significant figures.
package words

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/stat"
)

// Quantity formats a value in the unit a reader would choose: 3.2 ms, 412 us, 71.5 MB.
func Quantity(v float64, unit string) string {
	size := math.Abs(v)
	switch unit {
	case finding.UnitMicroseconds, finding.UnitPerRequest:
		suffix := strings.TrimPrefix(unit, finding.UnitMicroseconds)
		suffix = strings.Replace(suffix, "/", " per ", 1)
		switch {
		case size >= 1e6:
			return Figures(v/1e6) + " s" + suffix
		case size >= 200:
			return Figures(v/1e3) + " ms" + suffix
		}
		return Figures(v) + " µs" + suffix
	case finding.UnitBytesRequest:
		return Quantity(v, finding.UnitBytes) + " per request"
	case finding.UnitPackets:
		return Figures(v) + " packets per request"
	case finding.UnitPerChange:
		return Quantity(v, finding.UnitMicroseconds) + " per change"
	case finding.UnitBytesPerChange:
		return Quantity(v, finding.UnitBytes) + " per change"
	case finding.UnitPushesPerChange:
		return Figures(v) + " pushes per change"
	case finding.UnitSecondsPerChange:
		return Figures(v) + " proxy-seconds per change"
	case finding.UnitRatio:
		return Percent(v)
	case finding.UnitRatioPerHour:
		return Figures(v*100) + "% per hour"
	case finding.UnitBytesPerHour:
		return Quantity(v, finding.UnitBytes) + " per hour"
	case finding.UnitCores, finding.UnitBytes:
		by, name := scale(size, unit)
		return Figures(v/by) + " " + name
	}
	if money, ok := strings.CutSuffix(unit, "/month"); ok {
		if size < 100 {
			return Figures(v) + " " + money + " per month"
		}
		place := math.Pow10(int(math.Floor(math.Log10(size))) - 2)
		return Grouped(math.Round(v/place)*place) + " " + money + " per month"
	}
	return Figures(v) + " " + unit
}

// Figures formats a number with two or three significant figures.
func Figures(v float64) string {
	if v == 0 || !stat.Finite(v) {
		return "0"
	}
	digits := 2
	if math.Abs(v) >= 100 {
		digits = 3
	}
	place := digits - 1 - int(math.Floor(math.Log10(math.Abs(v))))
	if place > 0 {
		return strconv.FormatFloat(v, 'f', place, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

func Percent(v float64) string { return fmt.Sprintf("%.0f%%", v*100) }

// Times formats a ratio above one.
func Times(ratio float64) string {
	if ratio < 1.1 {
		return Percent(ratio-1) + " more than"
	}
	return Figures(ratio) + " times"
}

// Share formats a ratio below one.
func Share(ratio float64) string {
	if ratio < 0.01 {
		return "less than 1%"
	}
	return Percent(ratio)
}

// Fold formats how something grows or shrinks.
func Fold(ratio float64) string {
	switch {
	case ratio >= 1.05:
		return "grows " + Figures(ratio) + "-fold"
	case ratio > 0.95:
		return "stays the same"
	}
	return "falls to " + Percent(ratio)
}

// List joins parts as in a sentence.
func List(parts []string) string {
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	return strings.Join(parts[:len(parts)-1], ", ") + " and " + parts[len(parts)-1]
}

// Lines breaks a text into lines of at most width characters; longer words stay whole.
func Lines(text string, width int) []string {
	lines, length := []string{""}, 0
	for _, word := range strings.Fields(text) {
		n, last := utf8.RuneCountInString(word), len(lines)-1
		switch {
		case length == 0:
			lines[last], length = word, n
		case length+1+n > width:
			lines, length = append(lines, word), n
		default:
			lines[last], length = lines[last]+" "+word, length+1+n
		}
	}
	return lines
}

// Grouped formats a number with its thousands separated.
func Grouped(v float64) string {
	return Apart(strconv.FormatFloat(v, 'f', -1, 64))
}

// Apart separates the thousands of a formatted number.
func Apart(number string) string {
	whole, fraction, exact := strings.Cut(number, ".")
	first := 0
	if strings.HasPrefix(whole, "-") {
		first = 1
	}
	for i := len(whole) - 3; i > first; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if exact {
		whole += "." + fraction
	}
	return whole
}

// Plural formats a number of things: 1 block, 1,200 blocks.
func Plural[T int | int64](n T, noun string) string {
	text := Grouped(float64(n)) + " " + noun
	if stem, ok := strings.CutSuffix(text, "y"); ok && n != 1 && !strings.HasSuffix(stem, "a") {
		return stem + "ies" // proxies, but days
	} else if n != 1 {
		text += "s"
	}
	return text
}

// Unreached explains why a finding, given by name, has no figure: the timed event was
// missing more often than the finding leaves beyond it.
func Unreached(finding string) string {
	if strings.Contains(finding, "latency") {
		return "it lies among failed requests"
	}
	return "it was not reached in every trial"
}

// TooFew explains that a percentile without a figure needs more observations.
func TooFew(finding string) string {
	if strings.Contains(finding, "latency") {
		return "too few requests"
	}
	return "too few changes"
}

// Interval formats an estimate and the ends of its interval in one unit, written once:
// "0.90 cores (95% interval 0.54 to 1.27)". The unit suits the largest value in the
// sentence's context, or an end that is larger.
func Interval(v, low, high, largest float64, unit string) string {
	said, name := together(low, high, largest, unit, v)
	return said[2] + " " + name + " (95% interval " + said[0] + " to " + said[1] + ")"
}

// Between formats the ends of an interval in the same way: "-0.1 and 1.2 cores".
func Between(low, high, largest float64, unit string) string {
	said, name := together(low, high, largest, unit)
	return said[0] + " and " + said[1] + " " + name
}

// together formats the ends of an interval, and related values, in one unit and with the
// precision that gives half the interval two figures. A non-zero end is never written as
// zero, which would hide on which side of zero the interval ends.
func together(low, high, largest float64, unit string, more ...float64) (said []string, name string) {
	by, name := scale(math.Max(largest, math.Max(math.Abs(low), math.Abs(high))), unit)
	digits := 2
	if half := (high - low) / 2 / by; half > 0 {
		digits = min(1-int(math.Floor(math.Log10(half))), 6)
	}
	for i, v := range append([]float64{low, high}, more...) {
		digits, place := digits, math.Pow10(-digits)
		for i < 2 && v != 0 && digits < 9 && math.Round(v/by/place) == 0 {
			digits++
			place = math.Pow10(-digits)
		}
		text := strconv.FormatFloat(math.Round(v/by/place)*place, 'f', max(digits, 0), 64)
		text = Apart(strings.TrimPrefix(text, "-"))
		if v < 0 && strings.Trim(text, "0.") != "" {
			text = "-" + text
		}
		said = append(said, text)
	}
	return said, name
}

// scale returns the divisor for values of a unit, given the largest of them, and the
// resulting unit.
func scale(largest float64, unit string) (by float64, name string) {
	switch {
	case unit == finding.UnitCores && largest < 1:
		return 1e-3, "mCPU"
	case unit == finding.UnitBytes && largest >= 1e10:
		return 1e9, "GB"
	case unit == finding.UnitBytes && largest >= 1e6:
		return 1e6, "MB"
	case unit == finding.UnitBytes:
		return 1e3, "kB"
	}
	return 1, strings.ReplaceAll(unit, "/", " per ")
}

// Clean makes a string from a study or a machine safe to print on a terminal:
// it spells out control characters, which could move the cursor or recolour the
// screen, and characters that reorder or hide text.
func Clean(s string) string {
	ok := true
	for _, r := range s {
		if Hidden(r) {
			ok = false
			break
		}
	}
	if ok && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case Hidden(r) && r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case Hidden(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
		s = s[size:]
	}
	return b.String()
}

// Hidden reports whether r is a control character, a format character (which
// includes the bidirectional overrides) or a line separator.
func Hidden(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r)
}
