// Package notetest checks notes in tests, by codes and arguments instead of words.
package notetest

import (
	"fmt"
	"testing"

	"github.com/meshtrial/meshtrial/internal/note"
)

// Args checks that there are as many notes of a code as entries in want, and that
// the arguments of each begin with those of its entry, as printed by fmt.
func Args(t testing.TB, notes []note.Note, code string, want ...[]any) {
	t.Helper()
	found := 0
	for _, n := range notes {
		if n.Code != code {
			continue
		}
		if found++; found > len(want) {
			continue
		}
		for i, w := range want[found-1] {
			if i >= len(n.Args) || fmt.Sprint(n.Args[i]) != fmt.Sprint(w) {
				t.Errorf("%s has the arguments %v, want %v", code, n.Args, want[found-1])
				break
			}
		}
	}
	if found != len(want) {
		t.Errorf("%d of the warnings %q are %s, want %d", found, note.Codes(notes), code, len(want))
	}
}
