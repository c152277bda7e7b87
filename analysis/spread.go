package analysis

import (
	"regexp"
	"strconv"
	"strings"
)

// figure is a number that stands alone or before its unit, and is no part of a
// name.
var figure = regexp.MustCompile(`(^|[\s(])(-?[0-9]+(?:\.[0-9]+)?)`)

// Spread is one text for several that differ only in their figures: each figure
// that is not the same in all becomes a range, "103–435%". Figures that are
// part of a name (b000-t04) are those of the first text.
func Spread(texts []string) string {
	if len(texts) == 0 {
		return ""
	}
	first := figure.FindAllStringSubmatchIndex(texts[0], -1)
	low, high := make([]string, len(first)), make([]string, len(first))
	for _, text := range texts {
		found := figure.FindAllStringSubmatch(text, -1)
		if len(found) != len(first) {
			return texts[0] // of another shape after all
		}
		for i, m := range found {
			if low[i] == "" || value(m[2]) < value(low[i]) {
				low[i] = m[2]
			}
			if high[i] == "" || value(m[2]) > value(high[i]) {
				high[i] = m[2]
			}
		}
	}
	var out strings.Builder
	at := 0
	for i, m := range first {
		out.WriteString(texts[0][at:m[4]])
		out.WriteString(low[i])
		switch {
		case low[i] == high[i]:
		case strings.HasPrefix(low[i], "-"):
			out.WriteString(" to " + high[i])
		default:
			out.WriteString("–" + high[i])
		}
		at = m[5]
	}
	out.WriteString(texts[0][at:])
	return out.String()
}

func value(s string) float64 {
	v, _ := strconv.ParseFloat(s, 64) // the expression lets numbers through only
	return v
}
