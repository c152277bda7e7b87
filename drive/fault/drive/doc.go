// Package drive executes a timeline: it begins every occurrence on time, proves its effect,
// reverts it, and reports what happened and when.
//
// Data flow:
//
//	fault.Timeline -> Plan -> Executor.Ready (ahead of time) -> Execution.Begin (on time)
//	    -> Execution.Prove -> Execution.End -> record.Event, one for each begin and each end
//
// Occurrences run concurrently, because a proof may take longer than the time until the
// next step. When the timeline or the context ends, everything still in force is reverted
// in reverse order.
package drive
