package study

import (
	"bytes"
	"strings"

	"github.com/meshtrial/meshtrial/internal/lazyregexp"
	"github.com/meshtrial/meshtrial/record"
)

// FlagText is what a --set flag says to give the factor at a path a level, as a shell
// takes it.
func FlagText(path, level string) string { return shellText(path + "=" + levelText(level)) }

// flowText is a cell as files write it on one line.
func flowText(levels record.Cell) string {
	var b bytes.Buffer
	emitFlow(&b, cellValue{to: &levels, empty: true}.encode())
	return b.String()
}

// levelText is a level as a --set flag takes it: in quotes where YAML would read something
// else.
func levelText(level string) string {
	n, err := readTree([]byte(level), "", true)
	if err != nil || n.kind != scalar || n.text != level {
		return quote(level)
	}
	return level
}

// reShellPlain is what a shell leaves as it is, unless files have such names.
var reShellPlain = lazyregexp.New(`^([A-Za-z0-9_@%+=:,./*?\[\]^-]|\{\})+$`)

// shellText is a word as a shell takes it.
func shellText(word string) string {
	if reShellPlain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
