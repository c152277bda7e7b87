package resilience

import (
	"strconv"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
)

// Percent formats a share of requests with enough digits to distinguish it from zero and from all.
func Percent(share float64) string {
	switch p := 100 * share; {
	case p == 0:
		return "0%"
	case p < 1:
		return strconv.FormatFloat(p, 'g', 2, 64) + "%"
	case p < 10:
		return strconv.FormatFloat(p, 'f', 1, 64) + "%"
	default:
		return strconv.FormatFloat(p, 'f', 0, 64) + "%"
	}
}

// PercentilesNeed says how many requests percentiles need: "p50 needs 60, p90 300, p99 3,000". count
// formats a number.
func PercentilesNeed(count func(int64) string) string {
	out := "p50 needs " + count(stat.Takes(0.5))
	for _, q := range record.UpTo99()[1:] {
		if q < 1 {
			out += ", " + q.Head() + " " + count(stat.Takes(float64(q)))
		}
	}
	return out
}
