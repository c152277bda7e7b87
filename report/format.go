package report

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/finding"
	"github.com/meshtrial/meshtrial/record"
)

// The rules of this file are also those of ui/web/src/format.ts; both are
// tested against testdata/format.json.

// scale says how a group of values of one unit is shown: divided by Div and
// named Unit. All values of a table column share one scale, so that they can
// be compared at a glance.
type scale struct {
	Div  float64
	Unit string
}

// timeUnits maps the units of time in findings to microseconds.
var timeUnits = map[string]float64{"ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6}

// scaleFor chooses the scale for values of a unit whose largest magnitude is
// largest: times in µs below 0.2 ms, in ms below 10 s; bytes in kB, MB or GB;
// ratios in percent; cores of which none is used whole in thousandths. A
// "/request" suffix stays.
func scaleFor(unit string, largest float64) scale {
	base, per, found := strings.Cut(unit, "/")
	suffix := ""
	if found {
		suffix = " a " + per
		if per == "s" {
			suffix = "/s"
		}
	}
	if us, ok := timeUnits[base]; ok {
		switch largest *= us; {
		case largest < 200:
			return scale{1 / us, "µs" + suffix}
		case largest < 1e7:
			return scale{1e3 / us, "ms" + suffix}
		default:
			return scale{1e6 / us, "s" + suffix}
		}
	}
	switch base {
	case "bytes":
		switch {
		case largest < 1e6:
			return scale{1e3, "kB" + suffix}
		case largest < 1e10:
			return scale{1e6, "MB" + suffix}
		default:
			return scale{1e9, "GB" + suffix}
		}
	case "ratio":
		return scale{0.01, "%"}
	case "rps":
		return scale{1, "requests/s"}
	case "cores":
		if largest < 1 {
			return scale{1e-3, "mCPU"}
		}
	}
	return scale{1, unit}
}

// inMicroseconds returns findings whose times are all in microseconds, so
// that values of one table can be compared.
func inMicroseconds(f record.Findings) record.Findings {
	ratio := func(unit string) (float64, string) {
		base, per, found := strings.Cut(unit, "/")
		us, ok := timeUnits[base]
		switch {
		case !ok:
			return 1, unit
		case found:
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

// magnitude is the power of ten of v's first digit; 0 for 0.
func magnitude(v float64) int {
	v = math.Abs(v)
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return int(math.Floor(math.Log10(v)))
}

// decimals says how many digits after the point an estimate and its interval
// deserve, in shown units: one digit of the half width, two if it starts with
// 1, and never more than four significant digits of the estimate.
func decimals(estimate, low, high float64) int {
	half := (high - low) / 2
	most := 3 - magnitude(estimate)
	if !(half > 0) || math.IsInf(half, 0) {
		return clamp(most-1, 0, 6)
	}
	d := -magnitude(half)
	if half*math.Pow10(d) < 2 {
		d++
	}
	if biggest := 3 - magnitude(math.Max(math.Abs(low), math.Abs(high))); biggest < most {
		most = biggest
	}
	return clamp(min(d, most), 0, 6)
}

func clamp(v, low, high int) int { return max(low, min(v, high)) }

// fixed formats v with d digits after the point, thousands grouped, and
// never "-0".
func fixed(v float64, d int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "?"
	}
	s := strconv.FormatFloat(v, 'f', d, 64)
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
		if strings.Trim(s, "0.") == "" {
			sign = ""
		}
	}
	whole, frac, _ := strings.Cut(s, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if frac != "" {
		frac = "." + frac
	}
	return sign + whole + frac
}

// plain formats a value without interval with three significant digits,
// without its unit.
func (s scale) plain(v float64) string {
	v /= s.Div
	if v == 0 {
		return "0"
	}
	if s.counts() && v == math.Trunc(v) {
		return fixed(v, 0)
	}
	return fixed(v, clamp(2-magnitude(v), 0, 6))
}

// value is plain with its unit.
func (s scale) value(v float64) string { return join(s.plain(v), s.Unit) }

// interval formats an estimate with its interval, without unit:
// "0.31 (0.28–0.34)".
func (s scale) interval(estimate, low, high float64) string {
	e, span := s.parts(estimate, low, high)
	return e + " (" + span + ")"
}

// quantity is interval with the unit behind the estimate:
// "0.31 ms (0.28–0.34)".
func (s scale) quantity(estimate, low, high float64) string {
	e, span := s.parts(estimate, low, high)
	return join(e, s.Unit) + " (" + span + ")"
}

func (s scale) parts(estimate, low, high float64) (e, span string) {
	estimate, low, high = estimate/s.Div, low/s.Div, high/s.Div
	d := decimals(estimate, low, high)
	if s.counts() && low == high && estimate == math.Trunc(estimate) {
		d = 0
	}
	dash := "–"
	if low < 0 {
		dash = " to "
	}
	if !oneValue(low, high) && fixed(low, d) == fixed(high, d) { // much narrower than the digits that are told
		half := math.Max(high-estimate, estimate-low)
		return fixed(estimate, d), "to within " + fixed(half, clamp(-magnitude(half), 0, 9))
	}
	return fixed(estimate, d), fixed(low, d) + dash + fixed(high, d)
}

// counts says that values are numbers of things, which need no decimals to
// show how exact they are.
func (s scale) counts() bool {
	return finding.Counts(s.Unit)
}

func join(number, unit string) string {
	switch unit {
	case "":
		return number
	case "%":
		return number + "%"
	}
	return number + " " + unit
}

// count formats a whole number with its thousands grouped.
func count[T int | int64](n T) string { return fixed(float64(n), 0) }

// plural is "1 block", "12 blocks".
func plural[T int | int64](n T, noun string) string {
	if n == 1 {
		return count(n) + " " + noun
	}
	return count(n) + " " + noun + "s"
}
