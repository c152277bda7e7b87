// Package yamltree reads one YAML document written by people into a tree of
// values with their positions. Study files and service graphs are read from it.
//
// Scalars stay text, since the field determines what a text means: a level
// `off` or a version 1.10 is never taken for something else. The text is
// checked before the YAML library sees it, and size, nesting and values are
// limited, so no text can crash the program or keep it busy for long. Reading
// stops at the first error, which has a position, and which the caller converts
// to an error of its own.
package yamltree

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

// Format says what a file may contain.
type Format struct {
	What   string // the content of such files, for messages: "study"
	Bytes  int    // maximum size in bytes
	Tokens int    // maximum number of tokens; the YAML library's time grows with its square
	Values int    // maximum number of values, with those behind aliases counted at each use
	Depth  int    // maximum nesting
	// Aliases allows anchors and aliases; the tree contains what they stand
	// for.
	Aliases bool
}

// Kind is the kind of a value.
type Kind int

// The kinds of values.
const (
	Scalar Kind = iota
	Mapping
	Sequence
	Null
)

// String returns the name of a kind, for people.
func (k Kind) String() string {
	return [...]string{"a value", "a mapping", "a list", "nothing"}[k]
}

// Node is a value with its position.
type Node struct {
	Kind   Kind
	Text   string  // for a scalar
	Quoted bool    // the scalar is in quotes or a block, and so a text
	Keys   []*Node // for a mapping; scalars
	Values []*Node // for a mapping or a list
	// Line and Column are where the value begins, from 1; columns count
	// characters.
	Line, Column int
}

// Error describes an error in a text.
type Error struct {
	Line, Column int // from 1; 0 for the file as a whole
	Msg          string
	Hint         string // what to do, "" if the message says it
	Syntax       bool   // the text is not YAML
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Msg
	}
	return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Msg)
}

// Lines splits a text into lines as positions count them.
func Lines(data []byte) []string { return strings.Split(normal(data), "\n") }

func normal(data []byte) string {
	return strings.ReplaceAll(strings.TrimPrefix(string(data), "\ufeff"), "\r\n", "\n")
}

// Read reads a text that contains one document. It returns no node for an empty
// text.
func Read(data []byte, f Format) (*Node, *Error) {
	if len(data) > f.Bytes {
		return nil, &Error{Msg: fmt.Sprintf("%d bytes are more than a %s may have (%d)", len(data), f.What, f.Bytes)}
	}
	r := &reader{Format: f, lines: Lines(data), anchors: map[string]ast.Node{}, open: map[string]bool{}}
	if err := r.check(); err != nil {
		return nil, err
	}
	file, failed := r.parse(strings.Join(r.lines, "\n"))
	if failed != nil {
		return nil, failed
	}
	var body ast.Node
	for _, d := range file.Docs {
		if _, comment := d.Body.(*ast.CommentGroupNode); d.Body == nil || comment {
			continue
		}
		if body != nil {
			return nil, r.fail(d.Body, "a file holds one "+f.What, "a second document begins here")
		}
		body = d.Body
	}
	if body == nil {
		return nil, nil
	}
	return r.convert(body, 0)
}

type reader struct {
	Format
	lines   []string
	anchors map[string]ast.Node
	open    map[string]bool // aliases that are being expanded
	values  int
}

// check rejects input that is not text, and nesting so deep that it would harm
// a recursive parser.
func (r *reader) check() *Error {
	flow := 0
	for i, line := range r.lines {
		fail := func(column int, hint, format string, args ...any) *Error {
			return &Error{Line: i + 1, Column: column, Msg: fmt.Sprintf(format, args...), Hint: hint}
		}
		if !utf8.ValidString(line) {
			return fail(1, "save the file as UTF-8", "this line is no UTF-8 text")
		}
		column, run := 0, 0
		for _, c := range line {
			column++
			if c != '\t' && (c < ' ' || c >= 0x7f && c < 0xa0 && c != 0x85) {
				return fail(column, "", "control character %U has no place in a %s", c, r.What)
			}
			switch c {
			case '[', '{':
				flow++
			case ']', '}':
				flow = max(0, flow-1)
			}
			// "- - - -" and "? ? ? ?" nest as well.
			if c == '-' || c == '?' || c == ':' {
				run++
			} else if c != ' ' {
				run = 0
			}
			if flow > r.Depth || run > 4*r.Depth {
				return fail(column, "", "nested too deep")
			}
		}
		if spaces := len(line) - len(strings.TrimLeft(line, " ")); spaces > 16*r.Depth && spaces < len(line) {
			return fail(spaces+1, "", "indented too deep")
		}
	}
	return nil
}

// parse calls the YAML library, which must not crash the program, whatever the
// text.
func (r *reader) parse(text string) (file *ast.File, failed *Error) {
	defer func() {
		if p := recover(); p != nil {
			file, failed = nil, r.syntax(nil, fmt.Sprintf("this is no YAML that can be read (%v)", p))
		}
	}()
	tokens := lexer.Tokenize(text)
	if len(tokens) > r.Tokens {
		line, column := r.place(tokens[r.Tokens])
		return nil, &Error{Line: line, Column: column, Msg: fmt.Sprintf("more than %d words and signs are too many for a %s", r.Tokens, r.What)}
	}
	file, err := parser.Parse(tokens, 0)
	if err == nil {
		return file, nil
	}
	var located yaml.Error
	if errors.As(err, &located) {
		return nil, r.syntax(located.GetToken(), located.GetMessage())
	}
	return nil, r.syntax(nil, err.Error())
}

func (r *reader) syntax(at *token.Token, msg string) *Error {
	line, column := r.place(at)
	if strings.Contains(msg, "'\t'") {
		return &Error{Line: line, Column: column, Msg: "a tab stands where YAML takes none", Syntax: true, Hint: "indent with spaces"}
	}
	return &Error{Line: line, Column: column, Msg: strings.TrimSpace(msg), Syntax: true,
		Hint: "look for a bracket, quote or colon that is missing, or an indentation that is wrong, here or just before"}
}

func (r *reader) place(t *token.Token) (line, column int) {
	if t == nil || t.Position == nil {
		return 1, 1
	}
	line, column = max(1, t.Position.Line), t.Position.Column
	// The library's column is off for some tokens; never point past the line.
	if line <= len(r.lines) {
		column = min(column, utf8.RuneCountInString(r.lines[line-1])+1)
	}
	return line, max(1, column)
}

func (r *reader) fail(n ast.Node, hint, format string, args ...any) *Error {
	line, column := r.place(firstToken(n))
	return &Error{Line: line, Column: column, Msg: fmt.Sprintf(format, args...), Hint: hint}
}

// firstToken returns the token where a value begins: for a block mapping, its
// first key.
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
