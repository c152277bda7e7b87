//go:build verify

package runner_test

import "testing"

// TestFiltersAlone enables each part alone, and all of them together.
func TestFiltersAlone(t *testing.T) {
	alone, together := allParts()
	testFilters(t, append(alone, together)...)
}
