package words

import (
	"math"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/record/finding"
)

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
