// Package advice derives from measurements of a mesh what limits it and what to try: a table
// of rules ([rules]) over quantities ([quantities]).
//
//	a run, or an istiod -> Evidence -> [Judge] -> Report -> [WriteText]
//
// A rule says when it holds, what rules it out, and what else is observed where it holds, each
// as a condition in Go over quantities. A quantity comes from a finding, a fact, a lever's
// level, a PromQL query over istiod's metrics, or a formula over other quantities. Quantities
// that were not measured are unknown, and conditions have three values: a rule is decided if
// the known quantities decide it; otherwise it lacks evidence, and says what to measure.
// Nothing is applied.
//
// Package gather collects the evidence, and package variables asks an istiod which settings it
// has.
package advice
