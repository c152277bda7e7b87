package stat

import (
	"fmt"
	"math"
)

// A Warmup detects when a trial has reached its steady state. The zero value is
// ready to use.
type Warmup struct {
	// Tolerance is the drift between the two halves of the steady part that is
	// always accepted, as a share of the level; 0.05 if 0.
	Tolerance float64
	// Keep is the number of steady intervals required, 4 if 0.
	Keep int
	// Names are the names of the series for people, such as latency and CPU. A
	// series without one is named by its number.
	Names []string
}

// Steady says where the steady part of a series starts.
type Steady struct {
	OK bool
	// Index is the first steady interval; meaningless unless OK.
	Index int
	Why   string
}

// Detect examines one or more series of the same trial (such as latency and
// CPU), one value per interval, and returns the interval from which all of them
// are steady. Call it again as intervals arrive.
//
// Each series is cut where the standard error of the mean of the rest is
// smallest (MSER: White, "An effective truncation heuristic for bias reduction
// in simulation output", Simulation 1997), which drops a start that biases the
// mean. The cut leaves at least half of the series, as White requires, and at
// least Keep intervals. The rest must then keep its level: its halves must
// agree within the tolerance or within their own scatter, so that a trend
// delays a trial and noise alone does not. Intervals without a number (NaN)
// count as not steady yet.
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
	// The latest cut of any series applies to all, so that latency and CPU have
	// the same window.
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
// Mathematical Statistics 1941), which a trend hardly affects. The requirement
// on the mean, which a step near the end violates, is dropped after 4*keep
// values: a series with too much scatter to meet it is still a level.
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

// unseen returns the share of its level by which a series may drift from one
// half to the other undetected: the tolerance, or the scatter of its halves.
func (w Warmup) unseen(x []float64) float64 {
	tolerance := w.Tolerance
	if tolerance <= 0 {
		tolerance = 0.05
	}
	level, _ := meanStdDev(x)
	scale := math.Max(math.Abs(level), math.SmallestNonzeroFloat64)
	return math.Max(2*math.Sqrt(successive(x)*2/float64(len(x)/2))/scale, tolerance)
}
