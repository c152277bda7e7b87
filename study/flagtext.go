package study

import (
	"bytes"
	"strings"

	"github.com/meshtrial/meshtrial/internal/lazyregexp"
	"github.com/meshtrial/meshtrial/record"
)

// FlagText is what a --set flag says to give the factor at a path a level, as a shell
// takes it.
func FlagText(path, level string) string { return shellText(flagText(path, level)) }

// flagText is FlagText as it is once a shell has read it.
func flagText(path, level string) string { return path + "=" + levelText(level, false) }

// listText is what a --set flag says to vary a factor, as a shell takes it.
func listText(factor string, levels []string) string { return shellText(listFlag(factor, levels)) }

// listFlag is listText as it is once a shell has read it.
func listFlag(factor string, levels []string) string {
	texts := make([]string, len(levels))
	for i, level := range levels {
		texts[i] = levelText(level, true)
	}
	return factor + "=[" + strings.Join(texts, ",") + "]"
}

// cellText is what a --set flag says to fill a section with levels, as a shell takes it.
func cellText(section string, levels record.Cell) string { return shellText(cellFlag(section, levels)) }

// cellFlag is cellText as it is once a shell has read it.
func cellFlag(section string, levels record.Cell) string {
	var b bytes.Buffer
	emitFlow(&b, cellValue{to: &levels, empty: true}.encode())
	return section + "=" + b.String()
}

// levelText is a level as a --set flag takes it, alone or in a list: in quotes where YAML
// would take it for something else.
func levelText(level string, listed bool) string {
	text := level
	if listed {
		text = "[" + level + "]"
	}
	n, err := readTree([]byte(text), "", true)
	if err == nil && listed && n.kind == sequence && len(n.values) == 1 {
		n = n.values[0]
	}
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
