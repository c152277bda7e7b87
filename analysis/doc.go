// Package analysis turns a run's observations into findings. It is a pure function of
// the run directory: the same run gives the same findings years later, on another
// machine, or under new assertions.
//
//	record.Run -> observations   valid trials by cell and block   observations.go
//	           -> measures       one number per trial               measure.go
//	           -> findings       differences inside blocks        findings.go
//	           -> noise floors   what identical baselines show    floor.go
//	           -> cell summaries, curves, validity                summary.go, validity.go
//	           -> how far a searched factor can go                search.go, climb.go
//	           -> published figures and ours, in words            published.go
//	record.Findings -> assertions in CEL                          assert.go, cel.go
//	a run      -> what others are compared with                   runfigures.go
//	a run in progress -> measure on, or enough                    enough.go
//
// A study's kind defines what is measured. It supplies a [Kind] (kinds/*/findings):
// measures, sources of findings that no single trial has, and its part of the summary of
// a cell.
//
// Package stat defines estimates, their intervals, and the conditions under which to
// trust them.
//
// The package is large because findings, floors, searches and assertions all query the
// same observations, cell by cell and unit by unit.
package analysis
