// Package arrival says when requests should leave: the schedule of an open
// loop, fixed before the first of them by a shape (how the rate changes), an
// arrival process and a seed, or by a recorded trace. It is pure: offsets
// are nanoseconds since a start that only the engine knows.
//
//	Shape (cumulative rate) + process + seed -> Schedule -> Request...
//	trace file -> ParseTrace -> Trace -> Schedule
package arrival
