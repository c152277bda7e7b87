//go:build !failpoints && !verify

// Package failpoint marks the steps at which tests kill the program. In ordinary
// builds a mark does nothing. With the build tag failpoints or verify, the
// environment variable MESHTRIAL_FAILPOINT selects the step at which the process
// kills itself.
package failpoint

// Reach marks a step: what has just been done, and to which object.
func Reach(step string, of ...any) {}
