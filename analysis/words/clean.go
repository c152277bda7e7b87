package words

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean makes a string from a study or a machine safe to print on a terminal:
// it spells out control characters, which could move the cursor or recolour the
// screen, and characters that reorder or hide text.
func Clean(s string) string {
	ok := true
	for _, r := range s {
		if Hidden(r) {
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
		case Hidden(r) && r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case Hidden(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
		s = s[size:]
	}
	return b.String()
}

// Hidden reports whether r is a control character, a format character (which
// includes the bidirectional overrides) or a line separator.
func Hidden(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r)
}
