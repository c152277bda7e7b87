// Package runner executes a plan in a lab and leaves a run directory behind:
//
//	study.Plan -> kind.Deploy (pods) -> trial, trial, ... -> store
//
// It knows the order of blocks and trials, limits, the stop rule, what a trial
// that was lost means, and resumption. What a study needs in the cluster and
// how one of its trials is carried through is its kind's business: [Kind] is
// all that the runner asks of it, and the packages below kinds answer.
//
// A trial is durable before the next starts. A cancelled context ends the run
// after the current step; everything completed is kept and [Options] with
// Resume goes on with it.
package runner
