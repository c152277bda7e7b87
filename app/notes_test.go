package app

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/testing/golden"
)

// TestGolden holds the words of each note that the program knows, with made-up arguments.
func TestGolden(t *testing.T) {
	var all strings.Builder
	for _, n := range note.Samples() {
		fmt.Fprintf(&all, "%s: %s\n", n.Code, n)
	}
	golden.File(t, filepath.Join("testdata", "notes.txt"), []byte(all.String()))
}
