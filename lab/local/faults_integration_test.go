//go:build integration

package local_test

import "testing"

// A `lab up` that is killed at any moment leaves nothing that `lab down` does
// not remove.
func TestKilledStart(t *testing.T) {
	b := newBench(t)
	b.killStart(t, chance(t))
}
