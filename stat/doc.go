// Package stat turns numbers measured in blocks into estimates with their uncertainty. It
// is pure: no clock, no context, no I/O, and no randomness except from fixed seeds, so
// the same input gives the same answer on any machine.
//
// Data flow:
//
//	histograms of trials  -> Counts -> quantiles         histogram.go
//	one number per trial    -> Pair (baseline, test)       pair.go
//	pairs of all blocks   -> Estimate with interval      estimate.go, pair.go, unpaired.go
//	histograms of blocks  -> Estimate of a quantile       pooled.go
//	values of blocks      -> Estimate of a typical block typical.go
//	doubled baseline      -> Floor (A/A noise floor)     floor.go
//	Estimate + Floor      -> Call; + margin -> Verdict   verdict.go
//	values of runs        -> Estimate of a change          runs.go
//	many claims           -> one error rate for all        together.go
//	values of runs in time -> Steps                        changepoint.go
//	p-values of a study   -> the level of its calls      family.go
//	Estimate              -> smallest effect it can find power.go
//	Estimate              -> measure on, or enough       stop.go
//	warm-up series        -> first steady interval       steady.go
//	CPU against rate      -> idle cost and slope         fit.go
//
// # What is resampled
//
// The independent unit is the block, not the request. Requests of one trial share warm
// caches, connections and neighbours on the machine. Ten thousand of them carry far less
// information than ten thousand independent observations, and two trials of the same cell
// differ by more than the scatter of their requests suggests. So a difference is taken
// inside a block, where drift cancels, and its uncertainty comes from how that difference
// varies from block to block.
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
// coverage by number of blocks.
//
// # Values without a comparison
//
// A plain value is the median of blocks ([Typical]). If one block in twenty is ten times
// as slow, Student's interval of 5, 9 and 18 blocks covers the mean of all such blocks in
// 22, 38 and 60% of runs, and its half-width is 1.2, 0.9 and 0.7 times the value. The
// median's interval covers the median in 95%, with 1.1, 0.3 and 0.03. A factor estimated
// from the blocks themselves cannot correct for correlation between blocks: at 0.9 from
// trial to trial it raises coverage of the long-term level from 70 to 85%, at two to
// eight times the width. So the claim is limited to the run's own time.
//
// # Quantiles
//
// Quantiles of latency pool the requests of all blocks, with intervals from leaving
// blocks out: see [PooledQuantile]. The mean of trials' quantiles is biased where few
// requests lie beyond the quantile. In a queue at a utilisation of 0.65 the interval of
// that mean covers the true p99.9 in half of the runs, and p99 in 80 to 90%.
// `go test ./stat -run SimulationPooled -v` prints both. Failed requests lie beyond every
// quantile.
//
// # Runs
//
// Between runs the independent unit is the run, for the same reason: all blocks of a run
// share the conditions of that run. [BetweenRuns] takes one value per run.
// `go test ./stat -run SimulationCompare -v` prints how often identical configurations appear
// different, by runs and by blocks of one run per side; SimulationTrend prints what
// [Steps] finds.
//
// Sources: Student, "The probable error of a mean", Biometrika 1908; Hall,
// "Theoretical comparison of bootstrap confidence intervals", Annals of
// Statistics 1988; Efron and Tibshirani, "An Introduction to the Bootstrap",
// 1993, chapters 12 to 14; Davison and Hinkley, "Bootstrap Methods and their
// Application", 1997, section 3.8 (hierarchical data); Kalibera and Jones,
// "Rigorous benchmarking in reasonable time", ISMM 2013; Hesterberg, "What
// teachers should know about the bootstrap", American Statistician 2015.
package stat
