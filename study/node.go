package study

import (
	"fmt"

	"github.com/meshtrial/meshtrial/internal/yamltree"
)

// MaxFile is how many bytes a study file may have.
const MaxFile = 1 << 20

// format is what a study file, and the value of a --set flag, may hold.
var format = yamltree.Format{What: "study", Bytes: MaxFile, Tokens: 40_000, Values: 20_000, Depth: 64, Aliases: true}

type kind = yamltree.Kind

const (
	scalar   = yamltree.Scalar
	mapping  = yamltree.Mapping
	sequence = yamltree.Sequence
	null     = yamltree.Null
)

// node is a value of a study file with its place; --set flags change the tree
// that a file was read into, and a study is written as a tree as well.
type node struct {
	kind   kind
	text   string
	keys   []key   // of a mapping
	values []*node // of a mapping or sequence
	pos    Pos
	style  style // for writing only
	quoted bool  // a scalar that is a text whatever it looks like; of files read
}

type key struct {
	name string
	pos  Pos
}

func (n *node) get(name string) *node {
	for i, k := range n.keys {
		if k.name == name {
			return n.values[i]
		}
	}
	return nil
}

func (n *node) set(name string, pos Pos, value *node) {
	for i, k := range n.keys {
		if k.name == name {
			n.values[i] = value
			n.keys[i].pos = pos
			return
		}
	}
	n.keys = append(n.keys, key{name, pos})
	n.values = append(n.values, value)
}

func (n *node) remove(name string) {
	for i, k := range n.keys {
		if k.name == name {
			n.keys = append(n.keys[:i:i], n.keys[i+1:]...)
			n.values = append(n.values[:i:i], n.values[i+1:]...)
			return
		}
	}
}

// what names the kind of a value for people.
func (n *node) what() string {
	if n.kind == scalar {
		return fmt.Sprintf("%q", clip(n.text, 40))
	}
	return n.kind.String()
}

func clip(s string, most int) string {
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "..."
	}
	return s
}

// source is a text being read, for positions.
type source struct {
	name  string
	flag  bool // a --set flag: positions within it are of no use
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

// readTree reads one YAML document into a tree, aliases written out.
func readTree(data []byte, name string, flag bool) (*node, error) {
	src := &source{name: name, flag: flag}
	tree, failed := yamltree.Read(data, format)
	if len(data) <= MaxFile {
		src.lines = yamltree.Lines(data)
	}
	switch {
	case failed != nil:
		hint := failed.Hint
		if len(data) > MaxFile {
			hint = "a study is a page or two"
		}
		if flag && failed.Syntax {
			hint = "write lists in brackets and texts with signs in quotes, and the whole so that the shell leaves it alone, as --set 'mtls=[a, b]'"
		}
		return nil, src.at(failed.Line, failed.Column).fault(CodeSyntax, hint, "%s", failed.Msg)
	case tree == nil && flag:
		return &node{kind: null, pos: src.at(1, 1)}, nil
	case tree == nil:
		return nil, src.at(1, 1).fault(CodeMissing, "a study has at least a name and a question; `meshtrial study show quick --source` prints one to begin with", "nothing is in it")
	}
	return src.node(tree), nil
}

// node gives a tree's places the file's name, the lines' text and the fields' paths.
func (s *source) node(t *yamltree.Node) *node {
	out := &node{kind: t.Kind, text: t.Text, quoted: t.Quoted, pos: s.at(t.Line, t.Column)}
	for _, k := range t.Keys {
		out.keys = append(out.keys, key{k.Text, s.at(k.Line, k.Column)})
	}
	for _, v := range t.Values {
		out.values = append(out.values, s.node(v))
	}
	return out
}

// inField notes in the places of a value and of all below it that it is the field at a path.
func (n *node) inField(path string) *node {
	n.pos.Field = path
	for i, v := range n.values {
		switch n.kind {
		case mapping:
			n.keys[i].pos.Field = joinField(path, n.keys[i].name)
			v.inField(n.keys[i].pos.Field)
		case sequence:
			v.inField(fmt.Sprintf("%s[%d]", path, i))
		}
	}
	return n
}
