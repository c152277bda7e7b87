package stat

import (
	"fmt"
	"math"
)

// A Warmup finds out when a trial has reached its steady state. The zero
// value is ready to use.
type Warmup struct {
	// Tolerance is the drift between the two halves of the steady part that
	// is always put up with, as a share of the level; 0.05 if 0.
	Tolerance float64
	// Keep is how many steady intervals are asked for, 4 if 0.
	Keep int
	// Names say which series is which, for people, as latency and CPU; a
	// series without one is called by its number.
	Names []string
}

// Steady says from where on a series is steady.
type Steady struct {
	OK bool
	// Index is the first steady interval; meaningless unless OK.
	Index int
	Why   string
}

// Detect looks at one or more series of the same trial (latency and CPU for
// one), a value an interval, and says from which interval on all of them are
// steady. It is called anew as intervals arrive.
//
// Each series is cut where the standard error of the mean of the rest is
// least (MSER: White, "An effective truncation heuristic for bias reduction in
// simulation output", Simulation 1997), which drops a start that pulls the
// mean away. The cut leaves at least half of the series, as White asks, and at
// least Keep intervals. Then the rest must keep its level: its halves
// must agree within the tolerance or within their own scatter, so that a trend
// keeps a trial waiting and noise alone does not.
// Intervals without a number (NaN) count as not steady yet.
func (w Warmup) Detect(series ...[]float64) Steady {
	if len(series) == 0 {
		return Steady{Why: "no series"}
	}
	n := len(series[0])
	for _, s := range series {
		n = min(n, len(s))
	}
	keep := max(w.Keep, 2)
	if w.Keep <= 0 {
		keep = 4
	}
	if n < keep {
		return Steady{Why: fmt.Sprintf("%d of at least %d intervals", n, keep)}
	}
	// The latest cut of any series holds for all, so that one window serves
	// latency and CPU alike.
	cut := 0
	for _, s := range series {
		cut = max(cut, truncation(s[:n], keep))
	}
	if n-cut < keep {
		return Steady{Why: fmt.Sprintf("%d of at least %d intervals since the last one without a number", n-cut, keep)}
	}
	for i, s := range series {
		if ok, why := w.level(s[cut:n], keep); !ok {
			return Steady{Why: w.name(i) + " " + why}
		}
	}
	unseen := 0.0
	for _, s := range series {
		unseen = math.Max(unseen, w.unseen(s[cut:n]))
	}
	return Steady{OK: true, Index: cut, Why: fmt.Sprintf("steady from interval %d of %d, as far as they tell: a drift of %.0f%% would not show", cut+1, n, unseen*100)}
}

func (w Warmup) name(series int) string {
	if series < len(w.Names) {
		return w.Names[series]
	}
	return fmt.Sprintf("series %d", series+1)
}

// truncation returns the MSER cut of x that leaves at least half of it and at
// least keep values, or the cut after its last missing value if that is later.
func truncation(x []float64, keep int) int {
	first := 0
	for i, v := range x {
		if !Finite(v) {
			first = i + 1
		}
	}
	best, at := math.Inf(1), first
	for d := first; d <= min(len(x)-keep, max(first, len(x)/2)); d++ {
		rest := x[d:]
		_, sd := meanStdDev(rest)
		n := float64(len(rest))
		if se := sd * sd * (n - 1) / (n * n); se < best {
			best, at = se, d
		}
	}
	return at
}

// level reports whether x keeps its level: its mean is known to a tenth, and
// its halves agree within the tolerance or within 2 standard errors. The
// scatter is taken from successive differences (von Neumann, Annals of
// Mathematical Statistics 1941), which a trend hardly enters. The demand on
// the mean, which a step near the end fails, ends with 4*keep values: a
// series that scatters so much that it cannot be met is still a level.
func (w Warmup) level(x []float64, keep int) (ok bool, why string) {
	n, half := len(x), len(x)/2
	level, sd := meanStdDev(x)
	scale := math.Max(math.Abs(level), math.SmallestNonzeroFloat64)
	if se := sd / math.Sqrt(float64(n)); se > 0.1*scale && n < 4*keep {
		return false, fmt.Sprintf("still scatters: its level is known to %.0f%% only", se/scale*100)
	}
	drift := math.Abs(mean(x[n-half:]) - mean(x[:half]))
	if drift > w.unseen(x)*scale {
		return false, fmt.Sprintf("still drifts by %.0f%%", drift/scale*100)
	}
	return true, ""
}

// unseen is how much of its level a series may drift from one half to the other
// without being told: the tolerance, or the scatter of its halves.
func (w Warmup) unseen(x []float64) float64 {
	tolerance := w.Tolerance
	if tolerance <= 0 {
		tolerance = 0.05
	}
	level, _ := meanStdDev(x)
	scale := math.Max(math.Abs(level), math.SmallestNonzeroFloat64)
	return math.Max(2*math.Sqrt(successive(x)*2/float64(len(x)/2))/scale, tolerance)
}
