// Package shell writes commands that users copy into a shell.
package shell

import (
	"strings"

	"github.com/meshtrial/meshtrial/internal/lazyregexp"
)

// plain matches words that a shell passes unchanged.
var plain = lazyregexp.New(`^[A-Za-z0-9_@%+=:,./-]+$`)

// Quote returns a word as a shell reads it, in quotes only if it needs them.
func Quote(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
