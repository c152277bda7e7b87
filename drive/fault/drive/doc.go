// Package drive executes a timeline: it begins every occurrence on time, has it
// proved, reverts it, and reports what happened when.
//
// Data passes through it this way:
//
//	fault.Timeline -> Plan -> Executor.Ready (ahead of time) -> Execution.Begin (on time)
//	    -> Execution.Prove -> Execution.End -> record.Event, one for each begin and each end
//
// Occurrences run concurrently, since a proof may take longer than the distance
// to the next step. Whatever is in force when the timeline or the context ends is
// reverted in reverse order.
package drive
