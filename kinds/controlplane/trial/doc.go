// Package trial carries trials of the control plane through: configuration
// changes on their way to sidecars.
//
//	study.Plan -> population, levers -> fleet connects, gets quiet -> changes -> sightings
//
// One pod holds the simulated sidecars of all cells. A trial brings the
// simulated Pods, Services and configuration to the cell's sizes, restarts
// istiod with the cell's levers, connects the fleet and waits until nothing is
// sent any more. Then it measures istiod idle, makes the changes on their
// schedule, each announced to the sidecars by its markers, and waits until
// every proxy that needs a change has acknowledged it. Afterwards it collects
// what proxies showed when, istiod's metrics and log, and the cost, asks istiod
// whether the levers took effect, and removes what the changes made. Profiles
// are taken while the changes are made once more, so that they disturb nothing.
// A disruption of all connections comes last, for the same reason (disruption.go).
// What was seen goes to package verdict, which decides what became of the
// changes and whether the trial may be believed.
package trial
