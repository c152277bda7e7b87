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
// Studies of the control plane go another way between the same ends:
//
//	study.Plan -> population, levers -> fleet connects, gets quiet -> changes -> who had which
//
// One pod holds the simulated sidecars of all cells. A trial brings the
// simulated Pods, Services and configuration to the cell's sizes, restarts
// istiod with the cell's levers, connects the fleet and waits until nothing is
// sent any more. Then it measures istiod idle, makes the changes on their
// schedule, each announced to the sidecars by its markers, and waits until
// every proxy that needs a change has acknowledged it. Afterwards it collects
// who had what when, istiod's metrics and log, and the cost, checks that the
// levers took effect, and removes what the changes made. Profiles are taken
// while the changes are made once more, so that they disturb nothing.
//
// Studies of resilience go a third way:
//
//	graph, cell -> scene (values) -> pods of the trial's own -> levers proved, requests flow
//	    -> timeline (fault/drive with hands) -> logs of clients, proxies, workers -> ledger.Book
//
// Every trial makes the services of its graph and its clients anew, and takes
// them away again. All clients begin at one instant, the zero of the timeline.
// Meanwhile a census follows pods and endpoints, a scribe the logs of all
// proxies and workers (which are gone when their pods are), and looks are taken
// at ejected endpoints and CPU. What steps change outside the run's namespace
// is noted in it before they do, so that a later run can put it back if this
// one dies.
//
// A trial is durable before the next starts. A cancelled context ends the
// run after the current step; everything completed is kept and [Options]
// with Resume goes on with it.
package runner
