package tuning

import "math"

// Front are the rows that no other one beats: none is as good in every column and
// better in one. Less is better; a row that lacks a column, which is then not a number,
// is on no front. Rows that are the same are all on it.
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
