// Package runner executes a plan in a lab and produces a run directory:
//
//	study.Plan -> kind.Deploy (pods) -> trial, trial, ... -> store
//
// It handles the order of blocks and trials, limits, the stop rule, lost
// trials, and resumption. What a study needs in the cluster and how its trials
// are executed is up to its kind, which implements [Kind] in a package below
// kinds.
//
// A trial is durable before the next starts. Cancelling the context ends the run
// after the current step. Everything completed is kept, and [Options] with
// Resume continues from there.
package runner
