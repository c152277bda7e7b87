package rights

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/testing/golden"
)

// The table of the document is the program's.
func TestDocument(t *testing.T) {
	var want strings.Builder
	for _, f := range Features() {
		without := f.Without
		var parts []string
		for _, r := range f.Rights {
			if r.Optional() && !strings.Contains(without, r.Without) && !strings.Contains(strings.Join(parts, "; "), r.Without) {
				where := ""
				if r.Where == InSystem { // elsewhere a feature may be nothing without a right of the same name
					where = " in " + string(InSystem)
				}
				parts = append(parts, fmt.Sprintf("without `%s %s`%s: %s", strings.Join(r.Verbs, ", "), r.Name(), where, r.Without))
			}
		}
		if without != "" {
			parts = append([]string{without}, parts...)
		}
		fmt.Fprintf(&want, "| %s | %s | %s | %s |\n", f.Name, f.Doc, cmp.Or(f.Privileged, "nothing"), strings.Join(parts, "; "))
	}
	golden.Section(t, "../../docs/cluster.md", "|---|---|---|---|\n", "", want.String())
}
