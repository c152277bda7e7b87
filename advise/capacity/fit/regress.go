package fit

import (
	"math"

	"github.com/meshtrial/meshtrial/stat"
)

// varies tells whether a column tells anything of itself: its largest value is
// a third and more above its smallest.
func varies(column []float64) bool {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range column {
		low, high = math.Min(low, v), math.Max(high, v)
	}
	return high > 1.3*low && high > 0
}

// regress fits y = sum of coefficients x columns by least squares with no
// coefficient below zero, errors relative to y. A column that use refuses, or
// that there are too few rows for, has no coefficient: NaN. The first column
// that is used is always.
func regress(y []float64, columns [][]float64, use []bool) []float64 {
	out := make([]float64, len(columns))
	for k := range out {
		out[k] = math.NaN()
	}
	var rows []int
	for i, v := range y {
		ok := v > 0 && stat.Finite(v)
		for k := range columns {
			ok = ok && (!use[k] || stat.Finite(columns[k][i]))
		}
		if ok {
			rows = append(rows, i)
		}
	}
	distinct := map[float64]bool{}
	var kept []int
	for k := range columns {
		if use[k] {
			kept = append(kept, k)
		}
	}
	for _, i := range rows { // rows that differ in what explains them
		key := 0.0
		for j, k := range kept {
			key += columns[k][i] * math.Pow(1.618, float64(j))
		}
		distinct[key] = true
	}
	kept = kept[:min(len(kept), len(distinct))]
	if len(kept) == 0 {
		return out
	}
	x := make([][]float64, len(rows))
	for r, i := range rows {
		for _, k := range kept {
			x[r] = append(x[r], columns[k][i]/y[i])
		}
	}
	for j, v := range nonNegative(x) {
		out[kept[j]] = v
	}
	return out
}

// nonNegative finds b >= 0 that brings the rows of x, times b, closest to 1 by
// least squares: coordinate descent on columns of length 1, which does not
// stand still before the optimum since the problem is convex.
func nonNegative(x [][]float64) []float64 {
	if len(x) == 0 {
		return nil
	}
	n := len(x[0])
	scale := make([]float64, n)
	for _, row := range x {
		for k, v := range row {
			scale[k] += v * v
		}
	}
	gram := make([][]float64, n)
	target := make([]float64, n)
	for k := range n {
		gram[k] = make([]float64, n)
		scale[k] = math.Sqrt(scale[k])
	}
	for _, row := range x {
		for k, v := range row {
			if scale[k] == 0 {
				continue
			}
			target[k] += v / scale[k]
			for j, w := range row {
				if scale[j] > 0 {
					gram[k][j] += v / scale[k] * w / scale[j]
				}
			}
		}
	}
	b := make([]float64, n)
	for range 20_000 {
		moved := 0.0
		for k := range n {
			if scale[k] == 0 {
				continue
			}
			gradient := target[k]
			for j := range n {
				gradient -= gram[k][j] * b[j]
			}
			next := math.Max(0, b[k]+gradient/gram[k][k])
			moved = math.Max(moved, math.Abs(next-b[k]))
			b[k] = next
		}
		if moved < 1e-12 {
			break
		}
	}
	for k := range n {
		if scale[k] > 0 {
			b[k] /= scale[k]
		}
	}
	return b
}
