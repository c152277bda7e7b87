package rights

import (
	"fmt"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/testing/golden"
)

// TestDocument compares the table of features in docs/cluster.md with the program's.
// `meshtrial cluster check` says what a user loses without an individual optional
// right.
func TestDocument(t *testing.T) {
	var want strings.Builder
	for _, f := range Features() {
		fmt.Fprintf(&want, "| %s | %s | %s | %s |\n", f.Name, f.Doc, f.Privileged, f.Without)
	}
	golden.Section(t, "../../docs/cluster.md", "|---|---|---|---|\n", "", want.String())
}
