package study

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/meshtrial/meshtrial/internal/lazyregexp"
)

// style says how a value is written.
type style int

const (
	styleAuto  style = iota // text: quoted where YAML would take it for something else
	stylePlain              // levels, numbers, durations: as they are
	styleFlow               // mappings and lists on one line
)

func plainNode(text string) *node { return &node{text: text, style: stylePlain} }
func textNode(text string) *node  { return &node{text: text} }

// emit writes a tree as YAML that readTree reads as the same tree.
func emit(n *node) []byte {
	var b bytes.Buffer
	emitBlock(&b, n, 0)
	return b.Bytes()
}

func emitBlock(b *bytes.Buffer, n *node, indent int) {
	pad := strings.Repeat(" ", indent)
	for i, v := range n.values {
		b.WriteString(pad)
		if n.kind == sequence {
			b.WriteString("- ")
			if v.kind == mapping && len(v.values) > 0 && v.style != styleFlow {
				// The first field stands on the line of the dash.
				var inner bytes.Buffer
				emitBlock(&inner, v, indent+2)
				b.WriteString(strings.TrimLeft(inner.String(), " "))
				continue
			}
		} else {
			b.WriteString(scalarText(n.keys[i].name, styleAuto))
			b.WriteString(":")
			if v.kind != scalar && len(v.values) > 0 && v.style != styleFlow {
				b.WriteString("\n")
				emitBlock(b, v, indent+2)
				continue
			}
			b.WriteString(" ")
		}
		if v.kind == scalar && v.style == styleAuto && literal(v.text) {
			b.WriteString("|\n")
			for line := range strings.SplitSeq(v.text, "\n") {
				if line != "" {
					b.WriteString(pad + "  " + line)
				}
				b.WriteString("\n")
			}
			continue
		}
		emitFlow(b, v)
		b.WriteString("\n")
	}
}

func emitFlow(b *bytes.Buffer, n *node) {
	switch n.kind {
	case null:
		b.WriteString("null")
	case scalar:
		b.WriteString(scalarText(n.text, n.style))
	case sequence:
		b.WriteString("[")
		for i, v := range n.values {
			if i > 0 {
				b.WriteString(", ")
			}
			emitFlow(b, v)
		}
		b.WriteString("]")
	case mapping:
		b.WriteString("{")
		for i, v := range n.values {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(scalarText(n.keys[i].name, styleAuto))
			b.WriteString(": ")
			emitFlow(b, v)
		}
		b.WriteString("}")
	}
}

var (
	rePlain = lazyregexp.New(`^[A-Za-z0-9_/][A-Za-z0-9_./+% -]*$`)
	// Levels that YAML 1.1 takes for a truth value.
	reOldBool = lazyregexp.New(`^(on|off|yes|no)$`)
	// Words and numbers that YAML 1.1 or 1.2 reads as something else.
	reTyped = lazyregexp.New(`^(?i:true|false|yes|no|on|off|y|n|null|[-+.]?(inf|nan)|[-+.0-9][-+.0-9_a-fox]*([ep%].*)?)$`)
)

func scalarText(text string, s style) string {
	if rePlain.MatchString(text) && !strings.HasSuffix(text, " ") &&
		(s == stylePlain && !reOldBool.MatchString(text) || !reTyped.MatchString(text) && !strings.HasPrefix(text, "---") && !strings.HasPrefix(text, "...")) {
		return text
	}
	return quote(text)
}

// quote writes a double-quoted scalar; JSON's form is YAML's too.
func quote(text string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil { // a string always encodes
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// literal reports whether text can be a block scalar: several lines, none of
// which YAML could misread.
func literal(text string) bool {
	if !strings.Contains(text, "\n") || strings.HasPrefix(text, " ") || strings.HasPrefix(text, "\n") {
		return false
	}
	for line := range strings.SplitSeq(text, "\n") {
		if strings.TrimRight(line, " \t") != line || strings.ContainsAny(line, "\t\r\u0085\u2028\u2029\ufeff") {
			return false
		}
	}
	return true
}
