// Package runner executes a plan in a lab: it deploys what the plan's cells
// need, runs blocks of trials in their random order, and leaves a run
// directory behind.
//
//	study.Plan -> topology (values) -> deploy (pods) -> trial, trial, ... -> store
//
// All pods of all cells stay up for the whole run and take turns; a cell
// picks a client pod and a server Service. In a trial the generator runs one
// continuous schedule; the runner polls its intervals and the parts' CPU
// until both are steady, fixes a window of whole intervals ahead of time,
// and stays silent until it has passed. Then it collects: the generator's
// histograms, the node's CPU counters at the window's edges, memory, the
// counters of worker and proxies over the whole trial, and checks that the
// mode which the cell names was really active.
//
// A trial is durable before the next starts. A cancelled context ends the
// run after the current step; everything completed is kept and [Options]
// with Resume goes on with it.
package runner
