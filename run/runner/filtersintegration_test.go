//go:build integration

package runner_test

import "testing"

// TestFilters has all parts in one sidecar; each alone has TestFiltersAlone of "verify".
func TestFilters(t *testing.T) {
	_, together := allParts()
	testFilters(t, together)
}
