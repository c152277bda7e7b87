// Package comparison compares runs: those of two sides, to tell which is better, and those of
// several weeks, to tell when something changed. It is pure: it takes the figures of runs
// ([analysis.RunFigures]) and returns documents.
//
//	runs of two sides -> better, worse, same or inconclusive      compare.go, change.go
//	runs over time    -> where the level of a finding changes     trend.go
//	runs              -> what they differ in, joined or refused   across.go
//
// The run is the unit, as its blocks share its particular circumstances. Package stat defines
// intervals and changes of level.
package comparison
