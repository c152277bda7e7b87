// Package fault describes the faults of a resilience trial: steps on a
// timeline, each at its time or when a condition holds, and reverted after a
// while or at the end of the trial.
//
// A study gives a [Timeline]. [Timeline.Check] finds contradictions and
// [Timeline.Plan] unrolls repeated steps into [Occurrence]s in order of time;
// both are pure. Package drive/fault/drive executes the plan: it begins each
// occurrence on time, proves its effect, reverts it, and returns what happened
// and when as [record.Event]s. The trial provides a [Performer], which knows how
// each action affects a cluster.
package fault
