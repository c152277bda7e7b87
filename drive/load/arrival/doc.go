// Package arrival computes when requests should be sent: the schedule of an open loop,
// determined in advance by a shape (how the rate changes), an arrival process and a seed. It
// is pure: offsets are nanoseconds since a start that only the engine knows.
//
//	Shape (cumulative rate) + process + seed -> Schedule -> Request...
package arrival
