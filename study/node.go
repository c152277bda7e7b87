package study

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/internal/lazyregexp"
	"github.com/meshtrial/meshtrial/internal/yamltree"
)

// MaxFile is the maximum size of a study file in bytes.
const MaxFile = 1 << 20

// format limits what a study file and the value of a --set flag may hold.
var format = yamltree.Format{What: "study", Bytes: MaxFile, Tokens: 40_000, Values: 20_000, Depth: 64, Aliases: true}

type kind = yamltree.Kind

const (
	Scalar   = yamltree.Scalar
	Mapping  = yamltree.Mapping
	Sequence = yamltree.Sequence
	Null     = yamltree.Null
)

// Node is a value of a study file with its position. --set flags modify the tree read from a file,
// and a study is written as a tree too.
type Node struct {
	Kind   kind
	Text   string  // of a scalar
	Keys   []key   // of a mapping
	Values []*Node // of a mapping or sequence
	Pos    Pos
	Style  style // for writing only
	Quoted bool  // of files read: a scalar that is text whatever it looks like
}

type key struct {
	Name string
	Pos  Pos
}

// index returns the index of a key of a mapping, -1 if there is none.
func (n *Node) index(name string) int {
	return slices.IndexFunc(n.Keys, func(k key) bool { return k.Name == name })
}

func (n *Node) Get(name string) *Node {
	if i := n.index(name); i >= 0 {
		return n.Values[i]
	}
	return nil
}

func (n *Node) Set(name string, pos Pos, value *Node) {
	if i := n.index(name); i >= 0 {
		n.Keys[i].Pos, n.Values[i] = pos, value
		return
	}
	n.Keys, n.Values = append(n.Keys, key{name, pos}), append(n.Values, value)
}

func (n *Node) remove(name string) {
	if i := n.index(name); i >= 0 {
		n.Keys, n.Values = slices.Delete(n.Keys, i, i+1), slices.Delete(n.Values, i, i+1)
	}
}

// What returns the kind of a value for messages.
func (n *Node) What() string {
	if n.Kind == Scalar {
		return fmt.Sprintf("%q", Clip(n.Text, 40))
	}
	return n.Kind.String()
}

func Clip(s string, most int) string {
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "..."
	}
	return s
}

// source is a text being read, for positions.
type source struct {
	name  string
	flag  bool // a --set flag, in which positions are useless
	lines []string
}

func (s *source) at(line, column int) Pos {
	if s.flag {
		return Pos{File: s.name}
	}
	p := Pos{File: s.name, Line: line, Column: column}
	if line >= 1 && line <= len(s.lines) {
		p.Text = s.lines[line-1]
	}
	return p
}

// readTree reads one YAML document into a tree and expands aliases.
func readTree(data []byte, name string, flag bool) (*Node, error) {
	src, tree, failed := readSource(data, name, format)
	src.flag = flag
	switch {
	case failed != nil:
		hint := failed.Hint
		if len(data) > MaxFile {
			hint = "a study is usually a page or two"
		}
		if flag && failed.Syntax {
			hint = "write lists in brackets, quote text with special characters, and quote the whole for the shell: --set 'mtls=[a, b]'"
		}
		return nil, src.at(failed.Line, failed.Column).Fault(CodeSyntax, hint, "%s", failed.Msg)
	case tree == nil && flag:
		return &Node{Kind: Null, Pos: src.at(1, 1)}, nil
	case tree == nil:
		return nil, src.at(1, 1).Fault(CodeMissing, "a study has at least a name and a question; `meshtrial study show quick --source` prints one to start from", "it is empty")
	}
	return src.node(tree), nil
}

// ReadTree reads a document in another format than a study's. Errors call it by name; for an empty
// document they say what is wanted.
func ReadTree(data []byte, name string, f yamltree.Format, wanted string) (*Node, error) {
	src, tree, failed := readSource(data, name, f)
	if failed != nil {
		return nil, src.at(failed.Line, failed.Column).Fault(CodeConflict, failed.Hint, "%s", failed.Msg)
	}
	if tree == nil {
		return nil, src.at(1, 1).Fault(CodeMissing, wanted, "it is empty")
	}
	return src.node(tree), nil
}

func readSource(data []byte, name string, f yamltree.Format) (*source, *yamltree.Node, *yamltree.Error) {
	src := &source{name: name}
	tree, failed := yamltree.Read(data, f)
	if len(data) <= f.Bytes {
		src.lines = yamltree.Lines(data)
	}
	return src, tree, failed
}

// node adds the file name, the source lines and the field paths to a tree's positions.
func (s *source) node(t *yamltree.Node) *Node {
	out := &Node{Kind: t.Kind, Text: t.Text, Quoted: t.Quoted, Pos: s.at(t.Line, t.Column)}
	for _, k := range t.Keys {
		out.Keys = append(out.Keys, key{k.Text, s.at(k.Line, k.Column)})
	}
	for _, v := range t.Values {
		out.Values = append(out.Values, s.node(v))
	}
	return out
}

// inField records path as the field of a value and of everything below it.
func (n *Node) inField(path string) {
	n.Pos.Field = path
	for i, v := range n.Values {
		switch n.Kind {
		case Mapping:
			n.Keys[i].Pos.Field = joinField(path, n.Keys[i].Name)
			v.inField(n.Keys[i].Pos.Field)
		case Sequence:
			v.inField(fmt.Sprintf("%s[%d]", path, i))
		}
	}
}

// style selects how a value is written.
type style int

const (
	styleAuto  style = iota // text: quoted where YAML would read it as another type
	stylePlain              // levels, numbers, durations: verbatim
	StyleFlow               // mappings and lists on one line
)

func PlainNode(text string) *Node { return &Node{Text: text, Style: stylePlain} }
func TextNode(text string) *Node  { return &Node{Text: text} }

// emit writes a tree as YAML that readTree reads as the same tree.
func emit(n *Node) []byte {
	var b bytes.Buffer
	emitBlock(&b, n, 0)
	return b.Bytes()
}

func emitBlock(b *bytes.Buffer, n *Node, indent int) {
	pad := strings.Repeat(" ", indent)
	for i, v := range n.Values {
		b.WriteString(pad)
		if n.Kind == Sequence {
			b.WriteString("- ")
			if v.Kind == Mapping && len(v.Values) > 0 && v.Style != StyleFlow {
				// The first field goes on the line of the dash.
				var inner bytes.Buffer
				emitBlock(&inner, v, indent+2)
				b.WriteString(strings.TrimLeft(inner.String(), " "))
				continue
			}
		} else {
			b.WriteString(scalarText(n.Keys[i].Name, styleAuto))
			b.WriteString(":")
			if v.Kind != Scalar && len(v.Values) > 0 && v.Style != StyleFlow {
				b.WriteString("\n")
				emitBlock(b, v, indent+2)
				continue
			}
			b.WriteString(" ")
		}
		if v.Kind == Scalar && v.Style == styleAuto && literal(v.Text) {
			b.WriteString("|\n")
			for line := range strings.SplitSeq(v.Text, "\n") {
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

func emitFlow(b *bytes.Buffer, n *Node) {
	switch n.Kind {
	case Null:
		b.WriteString("null")
	case Scalar:
		b.WriteString(scalarText(n.Text, n.Style))
	case Sequence, Mapping:
		brackets := map[kind]string{Sequence: "[]", Mapping: "{}"}[n.Kind]
		b.WriteByte(brackets[0])
		for i, v := range n.Values {
			if i > 0 {
				b.WriteString(", ")
			}
			if n.Kind == Mapping {
				b.WriteString(scalarText(n.Keys[i].Name, styleAuto) + ": ")
			}
			emitFlow(b, v)
		}
		b.WriteByte(brackets[1])
	}
}

var (
	rePlain = lazyregexp.New(`^[A-Za-z0-9_/][A-Za-z0-9_./+% -]*$`)
	// reOldBool matches levels that YAML 1.1 reads as booleans.
	reOldBool = lazyregexp.New(`^(on|off|yes|no)$`)
	// reTyped matches words and numbers that YAML 1.1 or 1.2 reads as another type.
	reTyped = lazyregexp.New(`^(?i:true|false|yes|no|on|off|y|n|null|[-+.]?(inf|nan)|[-+.0-9][-+.0-9_a-fox]*([ep%].*)?)$`)
)

func scalarText(text string, s style) string {
	if rePlain.MatchString(text) && !strings.HasSuffix(text, " ") &&
		(s == stylePlain && !reOldBool.MatchString(text) || !reTyped.MatchString(text) && !strings.HasPrefix(text, "---") && !strings.HasPrefix(text, "...")) {
		return text
	}
	return quote(text)
}

// quote writes a double-quoted scalar; JSON strings are valid YAML.
func quote(text string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil { // encoding a string never fails
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// literal reports whether text can be a block scalar: several lines, none of which YAML could
// misread.
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
