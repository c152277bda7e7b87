//go:build !failpoints && !verify

// Package failpoint marks the steps at which tests let the program die. In
// ordinary builds a mark does nothing; with the build tag failpoints or verify the
// environment variable MESHTRIAL_FAILPOINT says at which one the process kills
// itself.
package failpoint

// Reach marks a step: what has just been done, and to what.
func Reach(step string, of ...any) {}
