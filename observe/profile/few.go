package profile

import (
	"fmt"
	"math"

	"github.com/meshtrial/meshtrial/internal/note"
)

// LeastSamples is the number of CPU samples a profile needs to show where the
// time went: with fewer, the interval of a share of a tenth is 3% to 26% or
// wider.
const LeastSamples = 30

// leastOfRow is the number of samples a share needs: with fewer, its interval
// is wider than the share.
const leastOfRow = 5

// TooFew reports whether a CPU profile has too few samples to say anything.
func TooFew(kind string, samples int64) bool { return kind == KindCPU && samples < LeastSamples }

var (
	noteFew   = note.Define("profile_too_few", "only %v: too few to say where CPU time went; profile longer (%d samples at least), or under more load")
	noteUnits = note.Define("profile_units", "the first counts %s, the second %s: only shares can be compared")
)

// Few returns a note that there are too few samples.
func Few(samples int64) note.Note {
	noun := "samples"
	if samples == 1 {
		noun = "sample"
	}
	return noteFew.Of(fmt.Sprintf("%d %s", samples, noun), LeastSamples)
}

// Tells reports whether a weight represents enough of the total's samples for a
// share of its own.
func Tells(weight, total, samples int64) bool {
	return total > 0 && float64(weight)/float64(total)*float64(samples) >= leastOfRow-0.5
}

// Wilson returns the 95% interval of a share of n samples (Wilson, "Probable
// inference", JASA 1927), assuming independence.
func Wilson(share float64, n int64) (low, high float64) {
	const z = 1.959964
	if n <= 0 {
		return 0, 1
	}
	m := float64(n)
	middle := (share + z*z/(2*m)) / (1 + z*z/m)
	half := binomialHalf(share, n)
	return math.Max(0, math.Min(share, middle-half)), math.Min(1, math.Max(share, middle+half))
}

// binomialHalf returns half the width of Wilson's 95% interval of a share of n
// samples, which is wide enough for shares near zero.
func binomialHalf(share float64, n int64) float64 {
	const z = 1.959964
	if n <= 0 {
		return 1
	}
	m := float64(n)
	return z / (1 + z*z/m) * math.Sqrt(share*(1-share)/m+z*z/(4*m*m))
}
