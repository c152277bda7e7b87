//go:build verify

package runner_test

import "testing"

// TestFiltersAlone switches every part on, each alone, and all together.
func TestFiltersAlone(t *testing.T) {
	alone, together := allParts()
	testFilters(t, append(alone, together)...)
}
