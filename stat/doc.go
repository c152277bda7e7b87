// Package stat turns numbers measured in blocks into estimates that say how
// sure they are. It is pure: no clock, no context, no I/O, and randomness only
// from the seed in [Options], so the same input gives the same answer on any
// machine.
//
// Data passes through it like this:
//
//	histograms of trials  -> Counts -> quantiles         histogram.go
//	one number per trial    -> Pair (baseline, test)       pair.go
//	pairs of all blocks   -> Estimate with interval      estimate.go, pair.go, unpaired.go
//	quantiles over blocks -> Estimate, resampled         bootstrap.go
//	doubled baseline      -> Floor (A/A noise floor)     floor.go
//	Estimate + Floor      -> Call; + margin -> Verdict   verdict.go
//	Estimate              -> smallest effect it can find power.go
//	Estimate              -> measure on, or enough       stop.go
//	warm-up series        -> first steady interval       steady.go
//	CPU against rate      -> idle cost and slope         fit.go
//
// # What is resampled
//
// The independent unit is the block, not the request. Requests of one trial
// share its warm caches, its connections, its neighbours on the machine: ten
// thousand of them are far fewer than ten thousand independent facts, and two
// trials of the same cell differ by more than their requests' scatter says.
// So a difference is taken inside a block, where drift cancels, and its
// uncertainty comes from how that difference varies from block to block.
//
// # Why Student's t on block differences
//
// A run has few blocks (4 to 30). Every interval that only resamples blocks
// and reads percentiles stays inside the range of the block differences, and
// n independent values with the truth as median all fall on one side of it
// with probability 2^(1-n): with 4 blocks no such interval covers more than
// 87.5%, with 5 none more than 93.75%; in practice the percentile bootstrap
// and BCa cover 80 to 90% there. Student's t on the block differences is
// exact for normal differences at any n >= 2, and a difference of two similar
// skewed quantities is nearly symmetric, which is what t needs. The
// simulation in simulation_test.go, with heavy-tailed requests, trial noise
// and drift, is the evidence: `go test ./stat -run Simulation -v` prints
// coverage of each method by number of blocks.
//
// # What the hierarchical bootstrap is for
//
// [QuantileDifference] resamples blocks and, inside them, the requests of each
// trial, and studentizes (bootstrap-t, which Hall 1988 shows to be second-order
// accurate). In simulation it covers 91 to 95% from 6 blocks on, never better
// than Student's t, so it stands beside the reported interval: where the two
// disagree a warning says that the differences are skewed. Its inner level also
// tells how much of the variance requests alone explain, that is, whether longer
// windows or more blocks would narrow the interval. Resampling requests anew on
// top of blocks would count their scatter twice in a standard error (Davison and
// Hinkley 1997, section 3.8), which is why studentizing is needed.
//
// Sources: Student, "The probable error of a mean", Biometrika 1908; Hall,
// "Theoretical comparison of bootstrap confidence intervals", Annals of
// Statistics 1988; Efron and Tibshirani, "An Introduction to the Bootstrap",
// 1993, chapters 12 to 14; Davison and Hinkley, "Bootstrap Methods and their
// Application", 1997, section 3.8 (hierarchical data); Kalibera and Jones,
// "Rigorous benchmarking in reasonable time", ISMM 2013; Hesterberg, "What
// teachers should know about the bootstrap", American Statistician 2015.
package stat
