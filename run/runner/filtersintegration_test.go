//go:build integration

package runner_test

import "testing"

// TestFilters enables all parts in one sidecar; TestFiltersAlone of "verify" covers each
// alone.
func TestFilters(t *testing.T) {
	_, together := allParts()
	testFilters(t, together)
}
