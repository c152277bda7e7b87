package study

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Limits of a study file.
const (
	MaxFile  = 1 << 20 // bytes
	maxNodes = 20_000  // values, aliases expanded
	maxToken = 40_000  // words and signs; the YAML library's time grows with their square
	maxDepth = 64      // nesting
)

type kind int

const (
	scalar kind = iota
	mapping
	sequence
	null
)

// node is a value of a study file with its place. Scalars are kept as
// text: what it means is decided by the field it stands in, so that a level
// `off` or a version 1.10 is never taken for something else.
type node struct {
	kind   kind
	text   string
	keys   []key   // of a mapping
	values []*node // of a mapping or sequence
	pos    Pos
	style  style // for writing only
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
	switch n.kind {
	case mapping:
		return "a mapping"
	case sequence:
		return "a list"
	case null:
		return "nothing"
	}
	return fmt.Sprintf("%q", clip(n.text, 40))
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

func (s *source) token(t *token.Token) Pos {
	if t == nil || t.Position == nil {
		return s.at(1, 1)
	}
	line, column := t.Position.Line, t.Position.Column
	// The library's column is off for some tokens; never point past the line.
	if line >= 1 && line <= len(s.lines) {
		column = min(column, utf8.RuneCountInString(s.lines[line-1])+1)
	}
	return s.at(line, max(1, column))
}

// readTree reads one YAML document into a tree, anchors resolved.
func readTree(data []byte, name string, flag bool) (*node, error) {
	src := &source{name: name, flag: flag}
	if len(data) > MaxFile {
		return nil, src.at(0, 0).Errorf("a study is a page or two", "%d bytes are more than a study may have (%d)", len(data), MaxFile)
	}
	text := strings.TrimPrefix(string(data), "\ufeff")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	src.lines = strings.Split(text, "\n")
	if err := checkText(src); err != nil {
		return nil, err
	}
	file, err := parseYAML(src, text)
	if own := (Errors{}); errors.As(err, &own) {
		return nil, err
	}
	if err != nil {
		pos, msg := src.at(1, 1), err.Error()
		var located yaml.Error
		if errors.As(err, &located) {
			pos, msg = src.token(located.GetToken()), located.GetMessage()
		}
		hint := "look for a bracket, quote or colon that is missing, or an indentation that is wrong, here or just before"
		if flag {
			hint = "write lists in brackets and texts with signs in quotes, and the whole so that the shell leaves it alone, as --set 'mtls=[a, b]'"
		}
		return nil, pos.Errorf(hint, "%s", strings.TrimSpace(msg))
	}
	var docs []*ast.DocumentNode
	for _, d := range file.Docs {
		if d.Body != nil {
			if _, comment := d.Body.(*ast.CommentGroupNode); !comment {
				docs = append(docs, d)
			}
		}
	}
	if len(docs) == 0 && flag {
		return &node{kind: null, pos: src.at(1, 1)}, nil
	}
	if len(docs) == 0 {
		return nil, src.at(1, 1).Errorf("a study has at least a name and a question; `meshmark study show quick --source` prints one to begin with", "nothing is in it")
	}
	if len(docs) > 1 {
		return nil, src.token(firstToken(docs[1].Body)).Errorf("a file holds one study", "a second document begins here")
	}
	c := &converter{src: src, anchors: map[string]ast.Node{}, open: map[string]bool{}}
	n, failed := c.convert(docs[0].Body, 0)
	if failed != nil {
		return nil, Errors{failed}.err()
	}
	return n, nil
}

// parseYAML calls the YAML library, which must not take the program down
// with it, whatever the text.
func parseYAML(src *source, text string) (file *ast.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("this is no YAML that can be read (%v)", r)
		}
	}()
	tokens := lexer.Tokenize(text)
	if len(tokens) > maxToken {
		return nil, src.token(tokens[maxToken]).Errorf("a study is a page or two", "more than %d words and signs", maxToken)
	}
	return parser.Parse(tokens, 0)
}

// checkText refuses what is no text, and nesting so deep that a recursive
// parser would suffer from it.
func checkText(src *source) error {
	flow := 0
	for i, line := range src.lines {
		if !utf8.ValidString(line) {
			return src.at(i+1, 1).Errorf("save the file as UTF-8", "this line is no UTF-8 text")
		}
		column, run := 0, 0
		for _, r := range line {
			column++
			if r != '\t' && (r < ' ' || r >= 0x7f && r < 0xa0 && r != 0x85) {
				return src.at(i+1, column).Errorf("", "control character %U has no place in a study", r)
			}
			switch r {
			case '[', '{':
				flow++
			case ']', '}':
				flow = max(0, flow-1)
			}
			// "- - - -" and "? ? ? ?" nest as well.
			if r == '-' || r == '?' || r == ':' {
				run++
			} else if r != ' ' {
				run = 0
			}
			if flow > maxDepth || run > 4*maxDepth {
				return src.at(i+1, column).Errorf("", "nested too deep")
			}
		}
		if spaces := len(line) - len(strings.TrimLeft(line, " ")); spaces > 16*maxDepth && spaces < len(line) {
			return src.at(i+1, spaces+1).Errorf("", "indented too deep")
		}
	}
	return nil
}

type converter struct {
	src     *source
	anchors map[string]ast.Node
	open    map[string]bool // aliases being expanded
	nodes   int
}

func (c *converter) fail(n ast.Node, hint, format string, args ...any) *Error {
	return &Error{Pos: c.src.token(firstToken(n)), Msg: fmt.Sprintf(format, args...), Hint: hint}
}

// firstToken is where a value begins: for a block mapping its first key.
func firstToken(n ast.Node) *token.Token {
	switch n := n.(type) {
	case nil:
		return nil
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return n.Values[0].Key.GetToken()
		}
		return n.Start
	case *ast.MappingValueNode:
		return n.Key.GetToken()
	}
	return n.GetToken()
}

func (c *converter) convert(n ast.Node, depth int) (*node, *Error) {
	if c.nodes++; c.nodes > maxNodes {
		return nil, c.fail(n, "aliases count as often as they are used", "more than %d values", maxNodes)
	}
	if depth > maxDepth {
		return nil, c.fail(n, "", "nested too deep")
	}
	out := &node{pos: c.src.token(firstToken(n))}
	switch n := n.(type) {
	case *ast.NullNode:
		out.kind = null
	case *ast.StringNode:
		out.text = n.Value
	case *ast.LiteralNode:
		out.text = n.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		out.text = n.GetToken().Value
	case *ast.MappingNode:
		return out, c.mapping(out, n.Values, depth)
	case *ast.MappingValueNode:
		return out, c.mapping(out, []*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		out.kind = sequence
		for _, v := range n.Values {
			if v == nil {
				return nil, c.fail(n, "", "an entry of the list is empty")
			}
			item, err := c.convert(v, depth+1)
			if err != nil {
				return nil, err
			}
			out.values = append(out.values, item)
		}
	case *ast.AnchorNode:
		if n.Name == nil || n.Value == nil {
			return nil, c.fail(n, "", "an anchor without a name or value")
		}
		c.anchors[n.Name.GetToken().Value] = n.Value
		return c.convert(n.Value, depth+1)
	case *ast.AliasNode:
		return c.alias(n, depth)
	case *ast.TagNode:
		return nil, c.fail(n, "leave the tag out", "a study has no tags")
	case *ast.MergeKeyNode:
		return nil, c.fail(n, "write the fields out", "a study has no merge keys")
	default:
		return nil, c.fail(n, "", "a study cannot hold this")
	}
	return out, nil
}

func (c *converter) alias(n *ast.AliasNode, depth int) (*node, *Error) {
	if n.Value == nil {
		return nil, c.fail(n, "", "an alias without a name")
	}
	name := n.Value.GetToken().Value
	to, ok := c.anchors[name]
	if !ok {
		return nil, c.fail(n, "anchors come before their aliases", "there is no anchor &%s", name)
	}
	if c.open[name] {
		return nil, c.fail(n, "", "alias *%s contains itself", name)
	}
	c.open[name] = true
	defer delete(c.open, name)
	return c.convert(to, depth+1)
}

func (c *converter) mapping(out *node, values []*ast.MappingValueNode, depth int) *Error {
	out.kind = mapping
	seen := make(map[string]Pos, len(values))
	for _, v := range values {
		if v == nil || v.Key == nil || v.Value == nil {
			return &Error{Pos: out.pos, Msg: "a field lacks its name or value"}
		}
		if v.Key.IsMergeKey() {
			return c.fail(v.Key, "write the fields out", "a study has no merge keys")
		}
		k, err := c.convert(v.Key, depth+1)
		if err != nil {
			return err
		}
		if k.kind != scalar {
			return c.fail(v.Key, "", "a field's name must be a word")
		}
		if first, ok := seen[k.text]; ok {
			return c.fail(v.Key, fmt.Sprintf("the first is at line %d", first.Line), "field %q is given twice", clip(k.text, 40))
		}
		seen[k.text] = k.pos
		value, err := c.convert(v.Value, depth+1)
		if err != nil {
			return err
		}
		if value.kind == null && value.pos.Line < k.pos.Line {
			value.pos = k.pos
		}
		out.keys = append(out.keys, key{k.text, k.pos})
		out.values = append(out.values, value)
	}
	return nil
}
