package graph

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

// Limits of a file.
const (
	MaxFile  = 1 << 20 // bytes
	maxToken = 60_000  // words and signs; the YAML library's time grows with their square
	maxDepth = 16      // nesting; the format needs 6
)

type kind int

const (
	scalar kind = iota
	mapping
	sequence
	null
)

func (k kind) String() string { return [...]string{"a value", "a mapping", "a list", "nothing"}[k] }

// node is a value of a YAML file with its place. Scalars stay text.
type node struct {
	kind         kind
	text         string
	keys         []*node
	values       []*node
	line, column int
}

// readTree reads one YAML document.
func readTree(data []byte) (*node, *Problem) {
	text := strings.ReplaceAll(strings.TrimPrefix(string(data), "\ufeff"), "\r\n", "\n")
	if p := checkText(text); p != nil {
		return nil, p
	}
	file, err := parseYAML(text)
	if err != nil {
		p := &Problem{Path: "file", Msg: strings.TrimSpace(err.Error())}
		var located yaml.Error
		if errors.As(err, &located) {
			p.Msg = strings.TrimSpace(located.GetMessage())
			p.Line, p.Column = place(located.GetToken())
		}
		return nil, p
	}
	var body ast.Node
	for _, d := range file.Docs {
		if _, comment := d.Body.(*ast.CommentGroupNode); d.Body == nil || comment {
			continue
		}
		if body != nil {
			p := &Problem{Path: "file", Msg: "a second document begins here", Hint: "a file holds one graph"}
			p.Line, p.Column = place(d.Body.GetToken())
			return nil, p
		}
		body = d.Body
	}
	if body == nil {
		return nil, &Problem{Path: "file", Msg: "nothing is in it"}
	}
	return convert(body, 0)
}

// checkText refuses what is no text, and nesting so deep that a recursive
// parser would suffer from it.
func checkText(text string) *Problem {
	if len(text) > MaxFile {
		return &Problem{Path: "file", Msg: fmt.Sprintf("%d bytes are too many, at most %d are possible", len(text), MaxFile)}
	}
	flow, number := 0, 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		fail := func(msg string) *Problem { return &Problem{Path: "file", Msg: msg, Line: number, Column: 1} }
		if !utf8.ValidString(line) {
			return fail("this line is no UTF-8 text")
		}
		run := 0
		for _, r := range line {
			switch {
			case r != '\t' && (r < ' ' || r >= 0x7f && r < 0xa0 && r != 0x85):
				return fail(fmt.Sprintf("control character %U has no place here", r))
			case r == '[' || r == '{':
				flow++
			case r == ']' || r == '}':
				flow = max(0, flow-1)
			}
			if r == '-' || r == '?' || r == ':' {
				run++
			} else if r != ' ' {
				run = 0
			}
			if flow > maxDepth || run > 4*maxDepth {
				return fail("nested too deep")
			}
		}
		if spaces := len(line) - len(strings.TrimLeft(line, " ")); spaces > 256 {
			return fail("indented too deep")
		}
	}
	return nil
}

// parseYAML calls the YAML library, which must not take the program down with
// it, whatever the text.
func parseYAML(text string) (file *ast.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("this is no YAML that can be read (%v)", r)
		}
	}()
	tokens := lexer.Tokenize(text)
	if len(tokens) > maxToken {
		return nil, fmt.Errorf("%d words and signs are too many, at most %d are possible", len(tokens), maxToken)
	}
	return parser.Parse(tokens, 0)
}

func place(t *token.Token) (line, column int) {
	if t == nil || t.Position == nil {
		return 1, 1
	}
	return max(1, t.Position.Line), max(1, t.Position.Column)
}

func convert(n ast.Node, depth int) (*node, *Problem) {
	out := &node{line: 1, column: 1}
	first := n.GetToken()
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		first = m.Values[0].Key.GetToken()
	}
	if m, ok := n.(*ast.MappingValueNode); ok {
		first = m.Key.GetToken()
	}
	out.line, out.column = place(first)
	fail := func(msg, hint string) (*node, *Problem) {
		return nil, &Problem{Path: "file", Msg: msg, Hint: hint, Line: out.line, Column: out.column}
	}
	if depth > maxDepth {
		return fail("nested too deep", "")
	}
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
		return out, out.mapping(n.Values, depth)
	case *ast.MappingValueNode:
		return out, out.mapping([]*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		out.kind = sequence
		for _, v := range n.Values {
			if v == nil {
				return fail("an entry of the list is empty", "")
			}
			item, p := convert(v, depth+1)
			if p != nil {
				return nil, p
			}
			out.values = append(out.values, item)
		}
	default:
		return fail("anchors, aliases, tags and merge keys are not read here", "write the values out")
	}
	return out, nil
}

func (out *node) mapping(values []*ast.MappingValueNode, depth int) *Problem {
	out.kind = mapping
	seen := make(map[string]bool, len(values))
	for _, v := range values {
		if v == nil || v.Key == nil || v.Value == nil {
			return &Problem{Path: "file", Msg: "a field lacks its name or value", Line: out.line, Column: out.column}
		}
		key, p := convert(v.Key, depth+1)
		if p != nil {
			return p
		}
		if key.kind != scalar || seen[key.text] {
			msg := "a field's name must be a word"
			if key.kind == scalar {
				msg = fmt.Sprintf("field %q is given twice", clip(key.text))
			}
			return &Problem{Path: "file", Msg: msg, Line: key.line, Column: key.column}
		}
		seen[key.text] = true
		value, p := convert(v.Value, depth+1)
		if p != nil {
			return p
		}
		out.keys = append(out.keys, key)
		out.values = append(out.values, value)
	}
	return nil
}
