package tuning

import "math"

// Linear algebra for the search. (gonum's pulls all of LAPACK into the program, half
// a megabyte of every pod's image, for one decomposition.)

// matrix is stored by rows; symmetric ones have both halves.
type matrix [][]float64

func newMatrix(rows, columns int) matrix {
	all := make([]float64, rows*columns)
	out := make(matrix, rows)
	for i := range out {
		out[i] = all[i*columns : (i+1)*columns]
	}
	return out
}

func (m matrix) clone() matrix {
	out := newMatrix(len(m), len(m))
	for i := range m {
		copy(out[i], m[i])
	}
	return out
}

// factor returns the lower triangle whose product with its transpose is a symmetric
// matrix (Cholesky); false if the matrix is not positive definite.
func (m matrix) factor() (lower matrix, ok bool) {
	n := len(m)
	lower = newMatrix(n, n)
	for i := range n {
		for j := range i + 1 {
			sum := m[i][j]
			for k := range j {
				sum -= lower[i][k] * lower[j][k]
			}
			switch {
			case i != j:
				lower[i][j] = sum / lower[j][j]
			case !(sum > 0) || math.IsInf(sum, 1):
				return nil, false
			default:
				lower[i][i] = math.Sqrt(sum)
			}
		}
	}
	return lower, true
}

// forward solves lower * x = b for x, in place of b.
func (m matrix) forward(b []float64) {
	for i := range m {
		sum := b[i]
		for k := range i {
			sum -= m[i][k] * b[k]
		}
		b[i] = sum / m[i][i]
	}
}

// backward solves transpose(lower) * x = b for x, in place of b.
func (m matrix) backward(b []float64) {
	for i := len(m) - 1; i >= 0; i-- {
		sum := b[i]
		for k := i + 1; k < len(m); k++ {
			sum -= m[k][i] * b[k]
		}
		b[i] = sum / m[i][i]
	}
}

// logDeterminant returns the log determinant of the matrix whose factor this is.
func (m matrix) logDeterminant() (sum float64) {
	for i := range m {
		sum += 2 * math.Log(m[i][i])
	}
	return sum
}

func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// below returns the probability that a standard normal value lies below z.
func below(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }

// density returns the standard normal density at z.
func density(z float64) float64 { return math.Exp(-z*z/2) / math.Sqrt(2*math.Pi) }
