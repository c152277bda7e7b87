package report

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
)

// Scale says how to show values in one unit: divided by Div, and with Unit as the
// name. All values of a table column share one scale, so they can be compared at
// a glance. Base is the unit without its purpose: "µs" for "µs per request".
type Scale struct {
	Div        float64
	Unit, Base string
}

// Bare returns the scale with its base unit, for use where words state the
// purpose.
func (s Scale) Bare() Scale { return Scale{Div: s.Div, Unit: s.Base, Base: s.Base} }

// timeUnits maps the units of time in findings to microseconds.
var timeUnits = map[string]float64{"ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6}

// SplitUnit splits a finding's unit: "us/request" into "us" and "request".
func SplitUnit(unit string) (base, per string) {
	base, per, _ = strings.Cut(unit, "/")
	return base, per
}

// ScaleFor chooses the scale for values of a unit by the largest of them: times in
// µs below 0.2 ms, in ms below 10 s; bytes in kB, MB or GB; ratios in percent;
// cores, if all are below one, in thousandths. A "/request" suffix stays.
func ScaleFor(unit string, values ...float64) Scale {
	largest := 0.0
	for _, v := range values {
		largest = math.Max(largest, math.Abs(v))
	}
	base, per := SplitUnit(unit)
	suffix := ""
	switch per {
	case "":
	case "s", "h":
		suffix = "/" + per
	default:
		suffix = " per " + per
	}
	of := func(div float64, base string) Scale { return Scale{Div: div, Unit: base + suffix, Base: base} }
	if us, ok := timeUnits[base]; ok {
		switch largest *= us; {
		case largest < 200:
			return of(1/us, "µs")
		case largest < 1e7:
			return of(1e3/us, "ms")
		default:
			return of(1e6/us, "s")
		}
	}
	switch base {
	case "bytes":
		switch {
		case largest < 1e6:
			return of(1e3, "kB")
		case largest < 1e10:
			return of(1e6, "MB")
		default:
			return of(1e9, "GB")
		}
	case "ratio":
		return of(0.01, "%")
	case "rps":
		return Scale{Div: 1, Unit: "requests/s", Base: "requests/s"}
	case "packets":
		return of(1, "packets")
	case "cores":
		if largest < 1 {
			return Scale{Div: 1e-3, Unit: "mCPU", Base: "mCPU"}
		}
	}
	return Scale{Div: 1, Unit: unit, Base: base}
}

// inMicroseconds returns findings with all times in microseconds, so that values
// of one table can be compared.
func inMicroseconds(f record.Findings) record.Findings {
	ratio := func(unit string) (float64, string) {
		base, per := SplitUnit(unit)
		us, ok := timeUnits[base]
		switch {
		case !ok:
			return 1, unit
		case per != "":
			return us, "us/" + per
		}
		return us, "us"
	}
	inUS := func(x record.Finding) record.Finding {
		var r float64
		r, x.Unit = ratio(x.Unit)
		x.Estimate, x.Low, x.High, x.MDE = x.Estimate*r, x.Low*r, x.High*r, x.MDE*r
		return x
	}
	f.Findings = slices.Clone(f.Findings)
	for i, x := range f.Findings {
		f.Findings[i] = inUS(x)
	}
	f.NoiseFloor = slices.Clone(f.NoiseFloor)
	for i, x := range f.NoiseFloor {
		r, unit := ratio(x.Unit)
		f.NoiseFloor[i].Floor, f.NoiseFloor[i].Unit = x.Floor*r, unit
	}
	f.Published = slices.Clone(f.Published)
	for i, x := range f.Published {
		r, unit := ratio(x.Unit)
		f.Published[i].Figure, f.Published[i].Unit = x.Figure*r, unit
		if x.Measured != nil {
			m := inUS(*x.Measured)
			f.Published[i].Measured = &m
		}
	}
	return f
}

// Magnitude returns the power of ten of v's first digit; 0 for 0.
func Magnitude(v float64) int {
	v = math.Abs(v)
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return int(math.Floor(math.Log10(v)))
}

// Decimals returns the number of digits after the point for an estimate and its
// interval, in shown units: one digit of the half width, two if it starts with 1,
// and at most four significant digits of the estimate. It adds one digit if a
// non-zero end would otherwise be written as zero, since readers need to know on
// which side of zero it lies.
func Decimals(estimate, low, high float64) int {
	half := (high - low) / 2
	most := 3 - Magnitude(estimate)
	if !(half > 0) || math.IsInf(half, 0) {
		return Clamp(most-1, 0, 6)
	}
	d := -Magnitude(half)
	if half*math.Pow10(d) < 2 {
		d++
	}
	if biggest := 3 - Magnitude(math.Max(math.Abs(low), math.Abs(high))); biggest < most {
		most = biggest
	}
	d = Clamp(min(d, most), 0, 6)
	for _, end := range []float64{low, high} {
		if zeroAt(end, d) && d < 6 && !zeroAt(end, d+1) {
			return d + 1
		}
	}
	return d
}

// zeroAt reports whether v is not zero but is written as zero with d digits.
func zeroAt(v float64, d int) bool {
	return v != 0 && strings.Trim(strconv.FormatFloat(v, 'f', d, 64), "-0.") == ""
}

func Clamp(v, low, high int) int { return max(low, min(v, high)) }

// Fixed formats v with d digits after the point and grouped thousands, never as
// "-0".
func Fixed(v float64, d int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "?"
	}
	s := strconv.FormatFloat(v, 'f', d, 64)
	if strings.Trim(s, "-0.") == "" {
		s = strings.TrimPrefix(s, "-")
	}
	return words.Apart(s)
}

// Plain formats a value without interval, with three significant digits and
// without its unit.
func (s Scale) Plain(v float64) string {
	v /= s.Div
	if v == 0 {
		return "0"
	}
	if s.counts() && v == math.Trunc(v) {
		return Fixed(v, 0)
	}
	return Fixed(v, Clamp(2-Magnitude(v), 0, 6))
}

// Value is Plain with the unit.
func (s Scale) Value(v float64) string { return Join(s.Plain(v), s.Unit) }

// Interval formats an estimate with its interval, without unit: "0.31
// (0.28–0.34)".
func (s Scale) Interval(estimate, low, high float64) string {
	e, span := s.Parts(estimate, low, high)
	return e + " (" + span + ")"
}

// Quantity is Interval with the unit after the estimate: "0.31 ms (0.28–0.34)".
func (s Scale) Quantity(estimate, low, high float64) string {
	e, span := s.Parts(estimate, low, high)
	return Join(e, s.Unit) + " (" + span + ")"
}

func (s Scale) Parts(estimate, low, high float64) (e, span string) {
	estimate, low, high = estimate/s.Div, low/s.Div, high/s.Div
	d := Decimals(estimate, low, high)
	if s.counts() && low == high && estimate == math.Trunc(estimate) {
		d = 0
	}
	dash := "–"
	if low < 0 {
		dash = " to "
	}
	if !OneValue(low, high) && Fixed(low, d) == Fixed(high, d) { // much narrower than the shown digits
		half := math.Max(high-estimate, estimate-low)
		return Fixed(estimate, d), "to within " + Fixed(half, Clamp(-Magnitude(half), 0, 9))
	}
	return Fixed(estimate, d), Fixed(low, d) + dash + Fixed(high, d)
}

// counts reports whether values are numbers of things, which need no decimals to
// show their precision.
func (s Scale) counts() bool {
	return finding.Counts(s.Unit)
}

// Ends formats the ends of an interval with the digits they deserve, without
// unit.
func (s Scale) Ends(estimate, low, high float64) (from, to string) {
	estimate, low, high = estimate/s.Div, low/s.Div, high/s.Div
	d := Decimals(estimate, low, high)
	return Fixed(low, d), Fixed(high, d)
}

// Join formats a number with its unit.
func Join(number, unit string) string {
	switch {
	case unit == "":
		return number
	case strings.HasPrefix(unit, "%"):
		return number + unit
	}
	return number + " " + unit
}

// Count formats a whole number with its thousands grouped.
func Count[T int | int64](n T) string { return Fixed(float64(n), 0) }
