// Package fault describes the faults of a resilience trial: steps on a
// timeline, each at its time or when a condition holds, and reverted after a
// while or at the end of the trial.
//
// A study gives a [Timeline]. [Timeline.Check] finds contradictions and
// [Timeline.Plan] unrolls repeated steps into [Occurrence]s in order of time;
// both only compute. Package drive/fault/drive executes the plan: it begins each
// occurrence on time, has its effect proved, reverts it, and returns what
// happened when as [record.Event]s. The trial provides a [Performer], which
// knows what each action does to a cluster.
package fault
