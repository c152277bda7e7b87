package tuning

import "math"

// Front reports which rows are Pareto-optimal: no other row is as good in every column
// and better in one. Less is better. A row with a NaN column is not on the front.
// Identical rows are all on it.
func Front(rows [][]float64) []bool {
	out := make([]bool, len(rows))
	for i, row := range rows {
		out[i] = whole(row)
		for j, other := range rows {
			if i != j && whole(other) && beats(other, row) {
				out[i] = false
			}
		}
	}
	return out
}

func whole(row []float64) bool {
	for _, v := range row {
		if math.IsNaN(v) {
			return false
		}
	}
	return len(row) > 0
}

func beats(a, b []float64) bool {
	better := false
	for i := range a {
		if a[i] > b[i] {
			return false
		}
		better = better || a[i] < b[i]
	}
	return better
}
