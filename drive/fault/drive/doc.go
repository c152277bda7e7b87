// Package drive carries a timeline out: it begins every occurrence on time,
// has it proven, ends it, and tells what happened when.
//
// Data passes through it this way:
//
//	fault.Timeline -> Plan -> Executor.Ready (ahead of time) -> Execution.Begin (on time)
//	    -> Execution.Prove -> Execution.End -> record.Event, one for each begin and each end
//
// Occurrences run side by side, since a proof may take longer than the next
// step is away. What still stands at the end, or when the context ends, is
// ended in the reverse order, however the run came to its end.
package drive
