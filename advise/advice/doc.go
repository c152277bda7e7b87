// Package advice goes from what was measured of a mesh to what limits it and what to try:
// a table of rules ([rules]) over quantities ([quantities]).
//
//	a run, or an istiod -> Evidence -> [Judge] -> Report -> [WriteText]
//
// A rule says when it holds, what rules it out, and what else is seen where it holds, each a
// condition in Go over quantities. A quantity comes from a finding, a fact, a lever's level, a
// query in PromQL over istiod's metrics, or a formula over other quantities. What was not
// measured is unknown, and conditions have three values: a rule that is decided by what is
// known is decided; any other lacks evidence, and says what to measure. Nothing is applied.
//
// Package gather makes the evidence, package variables asks an istiod which settings it has.
package advice
