// Package stages splits the way of a change, from its commit to a proxy's acknowledgement, into
// stages.
//
//	events with their sightings + istiod's log lines + rises of its metrics -> Waterfall
//
// It is pure: [Make] works on what a trial recorded, when the trial ends and at any later time.
package stages
