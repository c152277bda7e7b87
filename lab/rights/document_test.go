package rights

import (
	"fmt"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/testing/golden"
)

// TestDocument holds the table of features in docs/cluster.md to the program's. What a
// user loses without a single optional right, `meshtrial cluster check` says.
func TestDocument(t *testing.T) {
	var want strings.Builder
	for _, f := range Features() {
		fmt.Fprintf(&want, "| %s | %s | %s | %s |\n", f.Name, f.Doc, f.Privileged, f.Without)
	}
	golden.Section(t, "../../docs/cluster.md", "|---|---|---|---|\n", "", want.String())
}
