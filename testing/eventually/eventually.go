// Package eventually lets tests wait for a condition instead of for a fixed time.
package eventually

import (
	"errors"
	"testing"
	"time"
)

// Holds waits until a condition holds, and fails the test if it does not within a minute.
func Holds(t testing.TB, what string, condition func() bool) {
	t.Helper()
	Within(t, time.Minute, what, condition)
}

// Within waits until a condition holds, and fails the test if it does not in time.
func Within(t testing.TB, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	Succeeds(t, limit, what, func() error {
		if condition() {
			return nil
		}
		return errNotYet
	})
}

var errNotYet = errors.New("it does not hold")

// Succeeds calls check until it returns no error, and fails the test with its last error if it
// does not in time. It calls check every millisecond at first, and less often the longer it
// takes, down to five times a second.
func Succeeds(t testing.TB, limit time.Duration, what string, check func() error) {
	t.Helper()
	var err error
	for began := time.Now(); ; {
		if err = check(); err == nil {
			return
		}
		took := time.Since(began)
		if took > limit {
			t.Fatalf("not within %v: %s: %v", limit, what, err)
		}
		time.Sleep(min(max(took/20, time.Millisecond), 200*time.Millisecond))
	}
}
