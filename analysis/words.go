package analysis

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/finding"
)

// quantity writes a value in the unit a reader would choose: 3.2 ms, 412 us,
// 71.5 MB.
func quantity(v float64, unit string) string {
	size := math.Abs(v)
	switch unit {
	case finding.UnitMicroseconds, finding.UnitPerRequest:
		suffix := strings.TrimPrefix(unit, finding.UnitMicroseconds)
		suffix = strings.Replace(suffix, "/", " a ", 1)
		switch {
		case size >= 1e6:
			return figures(v/1e6) + " s" + suffix
		case size >= 200:
			return figures(v/1e3) + " ms" + suffix
		}
		return figures(v) + " µs" + suffix
	case finding.UnitBytesRequest:
		return quantity(v, finding.UnitBytes) + " a request"
	case finding.UnitPackets:
		return figures(v) + " packets a request"
	case finding.UnitPerChange:
		return quantity(v, finding.UnitMicroseconds) + " a change"
	case finding.UnitBytesPerChange:
		return quantity(v, finding.UnitBytes) + " a change"
	case finding.UnitPushesPerChange:
		return figures(v) + " pushes a change"
	case finding.UnitSecondsPerChange:
		return figures(v) + " proxy-seconds a change"
	case finding.UnitRatio:
		return percent(v)
	case finding.UnitCores:
		if size < 1 {
			return figures(v*1e3) + " mCPU"
		}
	case finding.UnitBytes:
		if size >= 1e6 {
			return figures(v/1e6) + " MB"
		}
		return figures(v/1e3) + " kB"
	}
	if money, ok := strings.CutSuffix(unit, "/month"); ok {
		if size < 100 {
			return figures(v) + " " + money + " a month"
		}
		place := math.Pow10(int(math.Floor(math.Log10(size))) - 2)
		return grouped(math.Round(v/place)*place) + " " + money + " a month"
	}
	return figures(v) + " " + unit
}

// figures writes a number with two or three significant figures.
func figures(v float64) string {
	if v == 0 || !Finite(v) {
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

func percent(v float64) string { return fmt.Sprintf("%.0f%%", v*100) }

// times writes a ratio above one.
func times(ratio float64) string {
	if ratio < 1.1 {
		return percent(ratio-1) + " more than"
	}
	return figures(ratio) + " times"
}

// share writes a ratio below one.
func share(ratio float64) string {
	if ratio < 0.01 {
		return "less than 1%"
	}
	return percent(ratio)
}

// fold writes how something grows or shrinks.
func fold(ratio float64) string {
	switch {
	case ratio >= 1.05:
		return "grows " + figures(ratio) + "-fold"
	case ratio > 0.95:
		return "stays the same"
	}
	return "falls to " + percent(ratio)
}

// list joins parts as people do.
func list(parts []string) string {
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	return strings.Join(parts[:len(parts)-1], ", ") + " and " + parts[len(parts)-1]
}
