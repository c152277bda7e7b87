// Package fault is what happens to a mesh in a trial of resilience: steps on
// a timeline, each at its time or when a condition holds, each with an end or
// for good.
//
// A study gives a [Timeline]. [Timeline.Check] finds what contradicts itself,
// [Timeline.Plan] unrolls repeated steps into a list of [Occurrence]s in order
// of time; both only compute. Package drive/fault/drive carries the list out: it
// begins each occurrence on time, has it proven, undoes it, and tells as
// [record.Event]s what happened when. What an action does to a cluster is
// known to neither; the runner gives drive the hands.
package fault
