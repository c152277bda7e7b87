package stat

import (
	"math"
	"strconv"

	"github.com/meshtrial/meshtrial/internal/note"
)

// A Call classifies the estimate of a difference.
type Call string

// The words are those of a finding's verdict.
const (
	// Real: the interval excludes zero and the value exceeds the floor.
	Real Call = "real"
	// NoEffect: the whole interval lies within the margin.
	NoEffect Call = "no_effect"
	// Inconclusive: too uncertain for either.
	Inconclusive Call = "inconclusive"
)

// Call compares the estimate of a difference with the noise floor and with the
// margin within which differences do not matter (0 or more, in the estimate's
// unit; 0 for none), and explains the result. A difference is real if its
// interval excludes zero and its size exceeds the floor. There is no effect if
// the whole interval lies within the margin: that is a claim, and needs
// evidence like any other (see [Judge]). Everything else is inconclusive,
// however small the value.
func (e Estimate) Call(f Floor, margin float64) (Call, note.Note) { return e.CallIn(f, margin, digits) }

// CallIn is Call with values formatted by say, which knows their unit.
func (e Estimate) CallIn(f Floor, margin float64, say func(float64) string) (Call, note.Note) {
	if !e.Defined() {
		return Inconclusive, noteNoInterval.Of()
	}
	reach := math.Max(math.Abs(e.Low), math.Abs(e.High))
	switch {
	case e.Excludes(0) && math.Abs(e.Value) > f.Value:
		return Real, noteReal.Of(say(f.Value))
	case reach <= margin:
		return NoEffect, WithinMargin.Of(say(margin))
	case e.Excludes(0) && !Finite(f.Value):
		return Inconclusive, noteFloorUnknown.Of()
	case e.Excludes(0):
		return Inconclusive, WithinFloor.Of(say(f.Value))
	case margin > 0:
		return Inconclusive, IncludesZero.Of(say(margin))
	}
	return Inconclusive, IncludesZero.Of(nil)
}

// A Verdict is the result of comparing a new value with an old one against a
// margin.
type Verdict string

// Verdicts of [Judge].
const (
	Better       Verdict = "better"
	Worse        Verdict = "worse"
	Same         Verdict = "same"
	Undetermined Verdict = "inconclusive"
)

// Judge compares the estimate of a change, new minus old, with the largest
// change that the caller does not care about (0 or more, in the estimate's
// unit), where lower is better:
//
//	same          the whole interval lies within the margin either way
//	worse         the whole interval lies above +margin
//	better        the whole interval lies below -margin
//	inconclusive  the interval straddles a margin
//
// "Same" is a claim that needs evidence, not a failure to find a difference: it
// is the two one-sided tests of Schuirmann, "A comparison of the two one-sided
// tests procedure and the power approach", J. Pharmacokinetics and
// Biopharmaceutics 1987. Those would allow a 90% interval at a 5% risk. Judge
// uses the printed interval, which is stricter, so that the verdict never
// contradicts what the reader sees. Negate the estimate first where higher is
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

// digits formats a value with three significant digits, never as a power of
// ten.
func digits(v float64) string {
	if math.Abs(v) >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
