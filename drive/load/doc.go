// Package load is the load generator: open loop, by intended time, cheap.
//
// A [Spec] says what to send, over which connections, and when. [Start]
// checks it and begins; the run is cut into intervals (250 ms unless told
// otherwise) and every request belongs to the interval in which the schedule
// wanted it sent, whenever it really went. So the account of any range of
// intervals balances:
//
//	scheduled = completed + failed (by kind) + unfinished
//
// Data passes through it this way:
//
//	Spec -> arrival.Schedule (intended offsets, fixed by the seed)
//	     -> engine: the event loop (HTTP/1.1 and TCP in plain text) or the
//	        pool (TLS, HTTP/2, gRPC), which sends when a request is due and a
//	        connection is free
//	     -> recorder: per-interval histograms and counts
//	     -> Result -> Window (a range of intervals) -> Report, HDR log
//
// # Times
//
// All times are nanoseconds of the monotonic clock since the start of the
// run. For each request there are four:
//
//	intended  when the schedule wants it sent
//	free      when a connection (or stream) was free for it; at most intended
//	          if one was waiting
//	sent      when the engine began to act on it: just before its first
//	          bytes are written, or its connection is begun
//	done      when its last response byte came: by the kernel's note of when
//	          it received it, where a schedule paces the event loop, else
//	          when it was read
//
// Intended latency is done - intended: what a user who arrived at that time
// waited. Send latency is done - sent: what a closed-loop tool would report.
// Connection wait is max(0, free - intended). Schedule lag is
// sent - max(intended, free): the delay that the generator itself added, and
// nothing else. Where the rate is max there is no schedule: a request is
// intended when it is sent.
//
// In the event loop, done by the kernel's note leaves out how long the
// generator's own thread takes to wake up and read, which in a virtual
// machine is tens of microseconds and none of the target's doing.
package load
