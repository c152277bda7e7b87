// Package load is an open-loop load generator that measures by intended time.
//
// A [Spec] says what to send, over which connections, and when. [Start] checks
// it and begins. The run is divided into intervals (250 ms by default). Every
// request belongs to the interval in which the schedule intended it to be sent,
// even if it was sent later. So the account of any range of intervals balances:
//
//	scheduled = completed + failed (by kind) + unfinished
//
// Data flow:
//
//	Spec -> arrival.Schedule (intended offsets, fixed by the seed)
//	     -> engine: the event loop (HTTP/1.1, TCP and streams in plain text) or
//	        the pool (TLS, HTTP/2, gRPC), which sends when a request is due and
//	        a connection is free; messages of streams wait for nothing
//	     -> recorder: per-interval histograms and counts
//	     -> Result -> Window (a range of intervals) -> Report, HDR log
//
// # Times
//
// All times are nanoseconds of the monotonic clock since the start of the run.
// Each request has four:
//
//	intended  when the schedule intends to send it
//	free      when a connection (or stream) was free for it; at most intended
//	          if one was waiting
//	sent      when the engine began to act on it: just before its first
//	          bytes are written, or its connection is begun
//	done      when its last response byte arrived: by the kernel's timestamp
//	          if a schedule paces the event loop, otherwise when it was read
//
// Intended latency is done - intended: how long a user who arrived at that time
// waited. Send latency is done - sent: what a closed-loop tool would report.
// Connection wait is max(0, free - intended). Schedule lag is sent -
// max(intended, free): only the delay that the generator itself added. At rate
// max there is no schedule: a request is intended when it is sent.
//
// In the event loop, the kernel's timestamp for done excludes the time that the
// generator's own thread takes to wake up and read. In a virtual machine that
// is tens of microseconds, and the target does not cause it.
package load
