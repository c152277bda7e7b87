package stat

import (
	"math"

	gonum "gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/meshtrial/meshtrial/internal/note"
)

// DefaultLevel is the confidence level used if options name none.
const DefaultLevel = 0.95

// Options configures an estimate. The zero value is ready to use.
type Options struct {
	// Level is the confidence level, 0.95 if 0.
	Level float64
	// Resolution is the step in which values are read, in their unit: that of a counter or
	// of a histogram's buckets; 0 for exact counts. Blocks that agree to the step share
	// its rounding error, so no number of blocks reduces the standard error below that of
	// a uniform value within a step: the width divided by the square root of 12.
	Resolution float64
	// Say formats a value with its unit for warnings. If nil, values have three digits and
	// no unit.
	Say func(float64) string
}

func (o Options) level() float64 {
	if o.Level <= 0 || o.Level >= 1 || math.IsNaN(o.Level) {
		return DefaultLevel
	}
	return o.Level
}

// rounding returns the standard error due to reading values in steps.
func (o Options) rounding() float64 {
	if !(o.Resolution > 0) { // exact, or a share of nothing
		return 0
	}
	return o.Resolution / math.Sqrt(12)
}

// variance returns the variance of a mean: that of its scatter or of rounding, whichever
// is larger.
func (o Options) variance(scatter float64) float64 {
	return math.Max(scatter, o.rounding()*o.rounding())
}

// differing returns the options for a difference in which two values have these weights.
func (o Options) differing(a, b float64) Options {
	if o.Resolution > 0 {
		o.Resolution *= math.Hypot(a, b)
	}
	return o
}

func (o Options) say(v float64) string {
	if o.Say == nil {
		return digits(v)
	}
	return o.Say(v)
}

// An Estimate is a number with an interval. Its unit is that of the values it was made
// from.
type Estimate struct {
	Value float64
	// Low and High bound the interval. With fewer than two blocks the spread between
	// blocks is unknown, and they are -Inf and +Inf.
	Low, High float64
	// Level is the interval's confidence level, such as 0.95.
	Level float64
	// Blocks is the number of blocks that the estimate rests on.
	Blocks int
	// SE is the standard error of the value; for a [RelativeDifference], that of
	// log(1 + value). NaN if unknown.
	SE float64
	// DF is the degrees of freedom of SE.
	DF float64
	// Warnings list what limits trust in the number. They travel with it.
	Warnings []note.Note
}

// Excludes reports whether x lies outside the interval. An unbounded or
// undefined interval excludes nothing.
func (e Estimate) Excludes(x float64) bool { return x < e.Low || x > e.High }

// Defined reports whether the estimate has a value and a bounded interval.
func (e Estimate) Defined() bool {
	return Finite(e.Value) && Finite(e.Low) && Finite(e.High)
}

func (e *Estimate) warn(k *note.Kind, args ...any) { e.Warnings = append(e.Warnings, k.Of(args...)) }

// Mean estimates the mean over blocks from one value per block, with Student's t interval.
// It leaves out values that are not finite, with a warning. The interval of few blocks is
// wide, as it should be.
func Mean(values []float64, o Options) Estimate {
	x, lost := keepFinite(values)
	e := meanOf(x, o)
	if lost > 0 {
		e.warn(noteLostBlocks, lost, len(values))
	}
	return e
}

// meanOf is Mean for finite values.
func meanOf(x []float64, o Options) Estimate {
	e := Estimate{
		Value: math.NaN(), Low: math.Inf(-1), High: math.Inf(1),
		SE: math.NaN(), Level: o.level(), Blocks: len(x),
	}
	switch len(x) {
	case 0:
		e.warn(noteNoBlock)
		return e
	case 1:
		e.Value = x[0]
		e.warn(noteOneBlock)
		return e
	}
	mean, sd := meanStdDev(x)
	e.Value, e.DF = mean, float64(len(x)-1)
	e.SE = math.Max(sd/math.Sqrt(float64(len(x))), o.rounding())
	half := tQuantile(1-(1-e.Level)/2, e.DF) * e.SE
	e.Low, e.High = mean-half, mean+half
	if sd > 0 && len(x) < 4 { // if all values are the same, Low == High shows it
		e.warn(noteFewBlocks, len(x))
	}
	if i, far := outlier(x); far {
		e.warn(noteOutlier, o.say(x[i]))
	}
	return e
}

// outlier finds the value farthest from the median and reports whether it lies more than 6
// normal-consistent median absolute deviations away, as fewer than 1 in 10^8 normal values
// do. It needs at least 6 values.
func outlier(x []float64) (int, bool) {
	if len(x) < 6 {
		return 0, false
	}
	med := Median(x)
	dev := make([]float64, len(x))
	at := 0
	for i, v := range x {
		dev[i] = math.Abs(v - med)
		if dev[i] > dev[at] {
			at = i
		}
	}
	mad := 1.4826 * Median(dev)
	return at, mad > 0 && dev[at] > 6*mad
}

func tQuantile(p, df float64) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}.Quantile(p)
}

// meanStdDev returns the mean and sample standard deviation of at least two values. The
// deviation is exactly 0 if all are equal.
func meanStdDev(x []float64) (mean, sd float64) {
	equal := true
	for _, v := range x[1:] {
		equal = equal && v == x[0]
	}
	if equal {
		return x[0], 0
	}
	return gonum.MeanStdDev(x, nil)
}

func keepFinite(values []float64) (kept []float64, lost int) {
	kept = make([]float64, 0, len(values))
	for _, v := range values {
		if Finite(v) {
			kept = append(kept, v)
		} else {
			lost++
		}
	}
	return kept, lost
}

// Finite reports whether a value is neither NaN nor infinite.
func Finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
