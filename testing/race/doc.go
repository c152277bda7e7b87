// Package race tells tests whether the race detector is on. It multiplies time and memory, so
// tests that measure either skip.
package race
