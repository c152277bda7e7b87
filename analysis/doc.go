// Package analysis turns a run's observations into findings. It is a pure
// function of the run directory: the same run gives the same findings years
// later, on another machine, or judged under new assertions.
//
//	record.Run -> observations   valid trials by cell and block   observations.go
//	           -> measures       one number a trial               measure.go
//	           -> findings       differences inside blocks        findings.go
//	           -> noise floors   what identical baselines show    floor.go
//	           -> cell summaries, curves, validity                summary.go, validity.go
//	           -> control plane: convergence, waterfall, pushes  control.go, convergence.go, series.go, controlsummary.go
//	           -> resilience: windows, steps, ledger, expectation, verdicts  scenario*.go
//	              (request logs are read through record.Run.Requests, a trial at a time)
//	           -> what named parts of a sidecar cost              bill.go, billwords.go
//	           -> what a request's way is made of                 hops.go
//	           -> how far a searched factor can go                search.go
//	           -> idle cost and slope of CPU against rate         fit.go
//	           -> published figures beside ours, in words         published.go, controlwords.go, words.go
//	record.Findings -> assertions in CEL                          assert.go, celenv.go
//	two runs   -> better, worse, same or inconclusive             compare.go
//	a run under way -> measure on, or enough                      enough.go
//
// What is an estimate, its interval, and why it may be believed is package
// stat's.
package analysis
