// Package advice goes from what was measured of a mesh to what limits it and what to
// try: a table of rules (rules.yaml), judged over evidence.
//
//	rules.yaml -> [Read] -> Rules  \
//	a run, or an istiod -> Evidence -> [Rules.Judge] -> Report -> [WriteText]
//
// A rule says when it holds, what rules it out, and what else would show if it were
// so, each a CEL expression over quantities; a quantity is an expression in PromQL
// over istiod's metrics, a finding, a fact, or CEL over other quantities. What was not
// measured is unknown, and three-valued: a rule that what is known decides is decided,
// any other has not enough evidence, and says what to measure. Nothing is applied.
//
// Package gather makes the evidence, package variables asks an istiod which settings
// it has.
package advice
