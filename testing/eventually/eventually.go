// Package eventually has tests wait for a condition instead of for a fixed time.
package eventually

import (
	"testing"
	"time"
)

// every is how often a condition is checked.
const every = time.Millisecond

// Holds waits until a condition holds, and fails the test if it does not within a minute.
func Holds(t testing.TB, what string, condition func() bool) {
	t.Helper()
	Within(t, time.Minute, what, condition)
}

// Within waits until a condition holds, and fails the test if it does not in time.
func Within(t testing.TB, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !condition(); time.Sleep(every) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}
