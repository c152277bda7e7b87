package report

import (
	"strings"
	"unicode"

	"github.com/meshtrial/meshtrial/analysis/words"
)

// clean makes a string from a study or a machine safe to print: see [words.Clean].
func clean(s string) string { return words.Clean(s) }

// cleanLines is clean for a multi-line text: line ends and tabs stay.
func cleanLines(s string) string {
	lines := strings.Split(strings.ReplaceAll(s, "\r\n", "\n"), "\n")
	for i, line := range lines {
		parts := strings.Split(line, "\t")
		for j := range parts {
			parts[j] = clean(parts[j])
		}
		lines[i] = strings.Join(parts, "    ")
	}
	return strings.Join(lines, "\n")
}

// paragraphs splits a text into paragraphs, each on one line.
func paragraphs(s string) []string {
	var out []string
	for p := range strings.SplitSeq(strings.ReplaceAll(s, "\r\n", "\n"), "\n\n") {
		if words := strings.Fields(p); len(words) > 0 {
			out = append(out, strings.Join(words, " "))
		}
	}
	return out
}

// markdown escapes what Markdown and embedded HTML would interpret.
func markdown(s string) string {
	var b strings.Builder
	for _, r := range clean(s) {
		switch r {
		case '\\', '`', '*', '_', '[', ']', '|', '#', '~', '$', '@':
			b.WriteByte('\\')
			b.WriteRune(r)
		case '<':
			b.WriteString("&lt;")
		case '>':
			b.WriteString("&gt;")
		case '&':
			b.WriteString("&amp;")
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// csvText protects a text that a spreadsheet would interpret as a formula with a
// leading apostrophe.
func csvText(s string) string {
	s = clean(s)
	if first := strings.TrimLeftFunc(s, unicode.IsSpace); first != "" && strings.ContainsRune("=+-@|", rune(first[0])) {
		return "'" + s
	}
	return s
}
