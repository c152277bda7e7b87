package trial

import (
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/record"
)

// Comparisons of several proxies add up, but not what only the first control plane sends with what
// only the second does.
func TestSumCompared(t *testing.T) {
	var out record.PlaneConfigs
	sumCompared(&out, []scope.Compared{
		{Resources: 10, Differing: 2, Differences: []scope.Difference{{Type: "cds", First: "present", Resources: 1, Example: "a"}, {Type: "cds", Path: "lb_policy", First: "1", Second: "2", Resources: 1, Example: "b"}}},
		{Resources: 20, Differing: 3, Differences: []scope.Difference{{Type: "cds", Second: "present", Resources: 1, Example: "c"}, {Type: "cds", Path: "lb_policy", First: "1", Second: "3", Resources: 2, Example: "d"}}},
	})
	want := []record.ConfigDifference{{Type: "cds", Path: "lb_policy", First: "1", Second: "2", Resources: 3, Example: "b"},
		{Type: "cds", First: "present", Resources: 1, Example: "a"}, {Type: "cds", Second: "present", Resources: 1, Example: "c"}}
	if out.Resources != 30 || out.Differing != 5 || !slices.Equal(out.Differences, want) {
		t.Errorf("%+v", out)
	}
}
