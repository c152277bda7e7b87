// Package stat turns numbers measured in blocks into estimates that say how
// sure they are. It is pure: no clock, no context, no I/O, no randomness but
// from fixed seeds, so the same input gives the same answer on any
// machine.
//
// Data passes through it like this:
//
//	histograms of trials  -> Counts -> quantiles         histogram.go
//	one number per trial    -> Pair (baseline, test)       pair.go
//	pairs of all blocks   -> Estimate with interval      estimate.go, pair.go, unpaired.go
//	histograms of blocks  -> Estimate of a quantile       pooled.go
//	values of blocks      -> Estimate of what is typical typical.go
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
// # What is told by itself
//
// A plain value is the median of blocks ([Typical]). With one block in twenty ten
// times as slow, Student's interval of 5, 9 and 18 blocks covers the mean of all
// such blocks in 22, 38 and 60% of runs, and is 1.2, 0.9 and 0.7 times its value
// wide either way; that of the median covers the median in 95% with 1.1, 0.3 and
// 0.03. Correlation from block to block cannot be made good with a factor that is
// estimated from the blocks themselves: with 0.9 from trial to trial it brings
// coverage of the level at all times from 70 to 85%, at twice to eight times the
// width, so that the claim is of the run's own time instead.
//
// # Quantiles
//
// Quantiles of latency are of the requests of all blocks together, with
// intervals from leaving blocks out: see [PooledQuantile]. The mean of trials'
// quantiles is biased where few requests lie beyond one: in a queue at a
// utilisation of 0.65 the interval of that mean covers the true p99.9 in half of
// the runs, and p99 in 80 to 90%. `go test ./stat -run SimulationPooled -v` prints
// both beside each other. Requests that failed lie beyond every quantile.
//
// # Runs
//
// Between runs the independent unit is the run, for the same reason: all blocks of a
// run share what that run happened to have. [BetweenRuns] takes one value a run.
// `go test ./stat -run SimulationCompare -v` prints how often equals come out
// different by runs, and by blocks of one run a side; SimulationTrend what [Steps]
// finds.
//
// Sources: Student, "The probable error of a mean", Biometrika 1908; Hall,
// "Theoretical comparison of bootstrap confidence intervals", Annals of
// Statistics 1988; Efron and Tibshirani, "An Introduction to the Bootstrap",
// 1993, chapters 12 to 14; Davison and Hinkley, "Bootstrap Methods and their
// Application", 1997, section 3.8 (hierarchical data); Kalibera and Jones,
// "Rigorous benchmarking in reasonable time", ISMM 2013; Hesterberg, "What
// teachers should know about the bootstrap", American Statistician 2015.
package stat
