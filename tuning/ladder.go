package tuning

import "math"

// Shares by which a setting changes in one step of a ladder.
const (
	LeastStep = 0.10
	MostStep  = 0.30
)

// Ladder is the way from one setting to another, without the first, in even steps of 10
// to 30%: each is the one before times the same factor. Where both are whole, as
// replicas are, so are the steps, and none is smaller than one.
func Ladder(from, to float64, whole bool) []float64 {
	if !(from > 0 && to > 0) || from == to {
		return []float64{to}
	}
	n := int(math.Ceil(math.Abs(math.Log(to/from)) / math.Log1p(MostStep) * (1 - 1e-9)))
	var out []float64
	last := from
	for i := 1; i <= n; i++ {
		v := from * math.Pow(to/from, float64(i)/float64(n))
		if whole {
			if v = math.Round(v); v == last {
				continue
			}
		}
		if i == n {
			v = to
		}
		out, last = append(out, v), v
	}
	return out
}
