// Package trial runs control-plane trials: configuration changes on their way to sidecars.
//
//	study.Plan -> population, levers -> fleet connects, gets quiet -> changes -> sightings
//
// The pods of simulated sidecars serve all cells. A trial brings the simulated Pods, Services and
// configuration to the cell's sizes, restarts istiod with the cell's levers, connects the fleet and
// waits until messages stop. Then it measures istiod idle, makes the changes on their schedule,
// each announced to the sidecars by its markers, and waits until every proxy that needs a change
// has acknowledged it. Afterwards it collects the proxies' sightings, istiod's metrics and log, and
// the cost, asks istiod whether the levers took effect, and removes what the changes created.
// Profiles are taken while the changes are repeated, so that they disturb nothing. A disruption of
// all connections comes last, for the same reason (disruption.go). The evidence goes to package
// verdict, which determines the outcome of the changes and whether the trial is valid.
package trial
