package report

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean makes a string from a study or a machine safe to print on a terminal:
// control characters, which could move the cursor or recolour the screen, and
// characters that reorder or hide text are spelled out.
func clean(s string) string {
	ok := true
	for _, r := range s {
		if hidden(r) {
			ok = false
			break
		}
	}
	if ok && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case hidden(r) && r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case hidden(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
		s = s[size:]
	}
	return b.String()
}

// hidden says whether r is a control character, a format character (which
// includes the bidirectional overrides) or a line separator.
func hidden(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r)
}

// cleanLines is clean for a text of several lines: line ends and tabs stay.
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

// paragraphs are those of a text, each on one line.
func paragraphs(s string) []string {
	var out []string
	for p := range strings.SplitSeq(strings.ReplaceAll(s, "\r\n", "\n"), "\n\n") {
		if words := strings.Fields(p); len(words) > 0 {
			out = append(out, strings.Join(words, " "))
		}
	}
	return out
}

// markdown escapes what Markdown and the HTML in it would act on.
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

// csvText disarms a text that a spreadsheet would take for a formula by an
// apostrophe before it.
func csvText(s string) string {
	s = clean(s)
	if first := strings.TrimLeftFunc(s, unicode.IsSpace); first != "" && strings.ContainsRune("=+-@|", rune(first[0])) {
		return "'" + s
	}
	return s
}
