package stat

import (
	"fmt"
	"math"
	"strconv"
)

// A Call says what an estimate of a difference amounts to.
type Call string

// Calls, in the words of a finding's verdict.
const (
	// Real: the interval excludes zero and the value exceeds the floor.
	Real Call = "real"
	// BelowNoise: identical cells differ as much.
	BelowNoise Call = "below_noise"
	// Inconclusive: too uncertain to be called something or nothing.
	Inconclusive Call = "inconclusive"
)

// A Reason says what a call that is not real rests on.
type Reason string

// Reasons of calls; "" where they are none of these.
const (
	WithinFloor  Reason = "within_floor"  // identical cells differ as much
	IncludesZero Reason = "includes_zero" // beyond the floor, but the interval includes zero
	TooWide      Reason = "too_wide"      // the interval reaches far beyond the floor
)

// Why explains a call: the reason for programs, and a text for people.
type Why struct {
	Reason Reason
	Text   string
}

func (w Why) String() string { return w.Text }

// noiseReach is how many floors the interval of a difference that is below
// noise may reach.
const noiseReach = 3

// Call weighs the estimate of a difference against the noise floor, and says
// why in words. A difference is real only if its interval excludes zero and
// its size exceeds the floor. It is below noise if its size is within the
// floor and its interval reaches no farther than three floors, which 9 in 10
// intervals of identical cells keep; beyond that the interval is too wide to
// speak of nothing, and the call is inconclusive, as it is when interval or
// floor are unknown.
func (e Estimate) Call(f Floor) (Call, Why) { return e.CallIn(f, digits) }

// CallIn is Call with values put in words by say, which knows their unit.
func (e Estimate) CallIn(f Floor, say func(float64) string) (Call, Why) {
	switch {
	case !e.Defined():
		return Inconclusive, Why{Text: "too few blocks for an interval"}
	case !Finite(f.Value):
		return Inconclusive, Why{Text: "the noise floor is unknown"}
	}
	size := math.Abs(e.Value)
	reach := math.Max(math.Abs(e.Low), math.Abs(e.High))
	switch {
	case size > f.Value && e.Excludes(0):
		return Real, Why{Text: fmt.Sprintf("the interval excludes zero and the value exceeds the noise floor of %s", say(f.Value))}
	case size > f.Value:
		return Inconclusive, Why{IncludesZero, fmt.Sprintf("the value exceeds the noise floor of %s but its interval includes zero", say(f.Value))}
	case e.Excludes(0) || reach <= noiseReach*f.Value:
		return BelowNoise, Why{WithinFloor, fmt.Sprintf("identical baselines differ by up to %s", say(f.Value))}
	}
	return Inconclusive, Why{TooWide, fmt.Sprintf("the interval reaches %s, far beyond the noise floor of %s", say(reach), say(f.Value))}
}

// A Verdict says how a new value compares with an old one against a margin.
type Verdict string

// Verdicts of [Judge].
const (
	Better       Verdict = "better"
	Worse        Verdict = "worse"
	Same         Verdict = "same"
	Undetermined Verdict = "inconclusive"
)

// Judge weighs the estimate of a change, new minus old, against the margin
// that the caller does not care about (0 or more, in the estimate's unit),
// where lower is better:
//
//	same          the whole interval lies within the margin either way
//	worse         the whole interval lies above +margin
//	better        the whole interval lies below -margin
//	inconclusive  the interval straddles a margin
//
// "Same" is a claim that needs evidence, not a failure to find a difference:
// it is the two one-sided tests of Schuirmann, "A comparison of the two
// one-sided tests procedure and the power approach", J. Pharmacokinetics and
// Biopharmaceutics 1987. Those would allow a 90% interval at a 5% risk; the
// printed interval is used, which is stricter, so that what a reader sees and
// the verdict never disagree. Negate the estimate first where higher is
// better.
func Judge(e Estimate, margin float64) (Verdict, string) {
	margin = math.Abs(margin)
	switch {
	case !e.Defined() || math.IsNaN(margin):
		return Undetermined, "too few blocks for an interval"
	case e.Low > margin:
		return Worse, "the whole interval lies above the margin"
	case e.High < -margin:
		return Better, "the whole interval lies below the margin"
	case e.Low >= -margin && e.High <= margin:
		return Same, "the whole interval lies within the margin"
	case e.Excludes(0):
		return Undetermined, "there is a change, but it may lie within the margin"
	}
	return Undetermined, "the interval is wider than the margin: more blocks are needed"
}

// digits writes a value with three significant digits, never as a power of
// ten.
func digits(v float64) string {
	if math.Abs(v) >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
