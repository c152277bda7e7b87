package stat

import (
	"math"

	gonum "gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/meshtrial/meshtrial/internal/note"
)

// DefaultLevel is the confidence level of intervals that name none.
const DefaultLevel = 0.95

// Options say how an estimate is made. The zero value is ready to use.
type Options struct {
	// Level is the confidence level, 0.95 if 0.
	Level float64
	// Resolution is the step in which values are read, in their unit: that of a counter or
	// of a histogram's buckets; 0 for counts, which are exact. Blocks that agree to the
	// step share its rounding, so however many there are, the standard error is at least
	// that of a value anywhere in a step: its width by the root of 12.
	Resolution float64
	// Say puts a value in words for warnings, with its unit; three digits
	// without any if nil.
	Say func(float64) string
}

func (o Options) level() float64 {
	if o.Level <= 0 || o.Level >= 1 || math.IsNaN(o.Level) {
		return DefaultLevel
	}
	return o.Level
}

// rounding is the standard error that reading values in steps leaves.
func (o Options) rounding() float64 {
	if !(o.Resolution > 0) { // exact, or a share of nothing
		return 0
	}
	return o.Resolution / math.Sqrt(12)
}

// variance is a mean's, by the scatter of its values and by their steps.
func (o Options) variance(scatter float64) float64 {
	return math.Max(scatter, o.rounding()*o.rounding())
}

// differing are the options for a difference of two values that have these weights in it.
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

// An Estimate is a number with the interval that says how sure it is. Its
// unit is that of the values it was made from.
type Estimate struct {
	Value float64
	// Low and High bound the interval. With fewer than two blocks nothing is
	// known about the spread between blocks: they are -Inf and +Inf.
	Low, High float64
	// Level is the interval's confidence level, such as 0.95.
	Level float64
	// Blocks is how many blocks the estimate rests on.
	Blocks int
	// SE is the standard error of the value; of a [RelativeDifference] that
	// of log(1 + value). NaN if unknown.
	SE float64
	// DF is the degrees of freedom of SE.
	DF float64
	// Method names how the interval was made, for people.
	Method string
	// Warnings say what limits trust in the number. They travel with it.
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

// Mean estimates the mean over blocks from one value per block, with Student's
// t interval. Values that are not finite are left out, with a warning.
//
// Values from few blocks are few facts: the interval is wide then, as it
// should be.
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
		Method: "Student's t on blocks",
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
	if sd > 0 && len(x) < 4 { // of values that are all the same, Low == High says it
		e.warn(noteFewBlocks, len(x))
	}
	if i, far := outlier(x); far {
		e.warn(noteOutlier, o.say(x[i]))
	}
	return e
}

// outlier finds the value farthest from the median and reports whether it
// lies farther than 6 normal-consistent median absolute deviations, which
// fewer than 1 in 10^8 normal values do; it takes 6 values to tell.
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

// meanStdDev is the mean and sample standard deviation of at least two
// values; exactly 0 deviation if all are equal.
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

// Finite says that a value is a number, and not an infinite one.
func Finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
