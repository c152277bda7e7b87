package stat

import "github.com/meshtrial/meshtrial/internal/note"

// What limits trust in an estimate.
var (
	noteLostBlocks   = note.Define("lost_blocks", "%d of %d blocks gave no number")
	noteNoBlock      = note.Define("no_block", "no block gave a number")
	noteOneBlock     = note.Define("one_block_only", "one block: the spread between blocks is unknown")
	noteFewBlocks    = note.Define("few_blocks", "only %d blocks")
	noteOutlier      = note.Define("outlier", "one block[ (value %v)] is an outlier; it is kept, and widens the interval")
	noteOutlierLevel = note.Define("outlier_of_level", "one block[ (value %v)] is an outlier; it is kept, and the median is moved little by it")
	noteSame         = note.Define("same_values", "all %d blocks gave the same value: the interval has no width")
	noteSameRuns     = note.Define("same_values_of_runs", "all blocks of each run gave the same value: the interval has no width")
	noteOneRun       = note.Define("one_run", "one side has one run: its scatter from run to run is taken to be the other's")

	noteBadQuantile = note.Define("bad_quantile", "quantile %g is not between 0 and 1")
	noteFewBeyond   = note.Define("few_beyond", "%s is not estimated: %.3g requests lie beyond it, and it takes %d")

	noteRatioReference = note.Define("ratio_without_reference", "no ratio: the reference value is not above zero")
	noteRatioOpen      = note.Define("ratio_unbounded", "the reference value is indistinguishable from zero: the ratio is unbounded")
	noteRatioZero      = note.Define("ratio_of_zero", "no ratio: a value is indistinguishable from zero")

	// PoorFit says that the points lie off the line.
	PoorFit = note.Define("poor_fit", "poor linear fit: do not rely on idle cost and slope")

	noteLostWindows  = note.Define("lost_windows", "%d of %d windows gave no number")
	noteFewForSlope  = note.Define("few_windows_for_slope", "%d windows are too few for a slope")
	noteFewWindows   = note.Define("few_windows", "%d windows are too few for an interval: it takes %d")
	noteAlikeWindows = note.Define("alike_windows", "windows resemble their neighbours so much that they tell as little as %.1f independent ones: too few for an interval")
)

// What a call rests on.
var (
	noteNoInterval   = note.Define("no_interval", "too few blocks for an interval")
	noteReal         = note.Define("exceeds_floor", "the interval excludes zero and the value exceeds the noise floor[ of %v]")
	noteFloorUnknown = note.Define("floor_unknown", "the noise floor is unknown")

	WithinMargin = note.Define("within_margin", "the whole interval lies within the margin[ of %v]")
	WithinFloor  = note.Define("within_floor", "identical baselines differ by as much[: up to %v]")
	IncludesZero = note.Define("includes_zero", "the interval includes zero[ and reaches beyond the margin of %v]")
	Settling     = note.Define("settling", "it rises, but less and less: it may still be filling up, which would be no growth")
	TooShort     = note.Define("too_short", "it may grow by more than the margin[ of %v], or not at all")
)
