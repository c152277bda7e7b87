// Package assess says of a mesh what it is, what it costs, what limits it, what would change
// it, and which study would settle what is unknown. It is pure:
//
//	Evidence (what was read of the mesh, with what could not be) -> Assess -> Assessment -> package report
//
// What was not seen is unknown, with a code for the reason ([Unknown]); nothing is filled in.
package assess
