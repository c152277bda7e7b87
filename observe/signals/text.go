package signals

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Describe formats the value with its unit and parts, or says why there is
// none.
func (v Value) Describe() string {
	switch {
	case v.Status == StatusMissing:
		return "missing: " + strings.Join(v.Missing, ", ")
	case v.Status != StatusOK:
		return "no data"
	case v.Bucket == WithinFirst:
		return "<" + Seconds(v.HighS)
	case v.Bucket == BeyondLast:
		return ">" + Seconds(v.LowS)
	case v.HighS > wideBucket*v.LowS:
		return Seconds(v.LowS) + " to " + Seconds(v.HighS)
	}
	text := amount(*v.Value, v.Unit)
	if len(v.Parts) > 1 || len(v.Parts) == 1 && v.Parts[0].Name != "" && v.Unit != UnitRatio {
		var parts []string
		for _, p := range v.Parts {
			parts = append(parts, shortType(p.Name)+" "+amount(p.Value, v.Unit))
		}
		text += "  (" + strings.Join(parts, ", ") + ")"
	}
	if v.Saturated {
		text += "  SATURATED"
	}
	return text
}

// wideBucket is the ratio of a bucket's bounds from which a quantile within it
// is too imprecise for a single number.
const wideBucket = 1.5

// shortType shortens the names of xDS types, such as
// type.googleapis.com/envoy.config.cluster.v3.Cluster.
func shortType(name string) string {
	if rest, ok := strings.CutPrefix(name, "type.googleapis.com/"); ok {
		return rest[strings.LastIndexByte(rest, '.')+1:]
	}
	return name
}

// Describe formats the state, as of nowMS, and when the alert fired.
func (a Alert) Describe(nowMS int64) string {
	text := fmt.Sprintf("%s (over %s for %s)", a.State, Seconds(a.AboveS), Seconds(a.ForS))
	if a.SinceMS > 0 {
		text += fmt.Sprintf(", over it since %s", Seconds(float64(nowMS-a.SinceMS)/1000))
	}
	if n := len(a.Fired); n > 0 {
		text += fmt.Sprintf(", fired %d times, first at %s", n, time.UnixMilli(a.Fired[0].FromMS).Format(time.TimeOnly))
	}
	return strings.Replace(text, " 1 times", " once", 1)
}

// amount formats a value in its unit.
func amount(v float64, unit string) string {
	switch unit {
	case UnitSeconds:
		return Seconds(v)
	case UnitRatio:
		return digits(v*100) + "%"
	case UnitPerSecond:
		return digits(v) + "/s"
	case UnitBytes:
		return byteCount(v, "B") + "/s"
	case UnitCount:
		return fmt.Sprintf("%.0f", v)
	}
	return digits(v) + " " + unit
}

// Seconds formats a time in the most readable unit.
func Seconds(s float64) string {
	switch {
	case s == 0:
		return "0 s"
	case math.Abs(s) < 0.001:
		return digits(s*1e6) + " us"
	case math.Abs(s) < 1:
		return digits(s*1e3) + " ms"
	}
	return digits(s) + " s"
}

// digits formats three significant digits, and all digits before the point.
func digits(v float64) string {
	if v == 0 {
		return "0"
	}
	decimals := max(0, 2-int(math.Floor(math.Log10(math.Abs(v)))))
	text := fmt.Sprintf("%.*f", min(decimals, 9), v)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}
