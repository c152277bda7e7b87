package tuning

import "math"

// Shares by which a setting changes in one step of a ladder.
const (
	LeastStep = 0.10
	MostStep  = 0.30
)

// Ladder returns the steps from one setting to another, without the first. Steps are
// 10 to 30%, all by the same factor. If whole is set, as for replicas, steps are whole
// numbers, of at most 30% or one.
func Ladder(from, to float64, whole bool) []float64 {
	if !(from > 0 && to > 0) || from == to {
		return []float64{to}
	}
	if whole {
		return wholeLadder(from, to)
	}
	n := int(math.Ceil(math.Abs(math.Log(to/from)) / math.Log1p(MostStep) * (1 - 1e-9)))
	var out []float64
	for i := 1; i < n; i++ {
		out = append(out, from*math.Pow(to/from, float64(i)/float64(n)))
	}
	return append(out, to)
}

func wholeLadder(from, to float64) (out []float64) {
	for v := from; v != to; out = append(out, v) {
		if to > v {
			v = math.Min(to, math.Max(v+1, math.Floor(v*(1+MostStep))))
		} else {
			v = math.Max(to, math.Min(v-1, math.Ceil(v/(1+MostStep))))
		}
	}
	return out
}
