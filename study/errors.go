package study

import (
	"fmt"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// Pos is a position in a study file or a --set flag.
type Pos struct {
	File   string // name as given, or "--set FLAG"
	Line   int    // from 1
	Column int    // from 1, in characters
	Text   string // the line
	Field  string // path of the field, such as "blocks.max" or "assert[0]"
}

// String formats the position as file:line:column.
func (p Pos) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// flag reports whether the position is in a --set flag.
func (p Pos) flag() bool { return strings.HasPrefix(p.File, "--set ") }

// Errorf returns an error at this position, like the parser's own (exit code 2).
func (p Pos) Errorf(hint, format string, args ...any) error {
	return p.Fault(CodeConflict, hint, format, args...)
}

// Fault returns an error at this position.
func (p Pos) Fault(code Code, hint, format string, args ...any) error {
	e := Complain(code, hint, format, args...)
	e.Pos = p
	return Errors{e}.err()
}

// Code classifies an error in a study.
type Code string

// Error codes.
const (
	CodeSyntax    Code = "syntax"    // YAML that studies do not allow
	CodeType      Code = "type"      // the wrong one of mapping, list and scalar
	CodeUnknown   Code = "unknown"   // an unknown field, factor, level or step
	CodeMissing   Code = "missing"   // a required value is absent
	CodeInvalid   Code = "invalid"   // text that does not match the field's format
	CodeUnit      Code = "unit"      // a number without a unit, or with one the field does not take
	CodeRange     Code = "range"     // a number out of range
	CodeDuplicate Code = "duplicate" // a duplicate
	CodeKind      Code = "kind"      // a part of another kind of study
	CodeLimit     Code = "limit"     // more than the program accepts
	CodeConflict  Code = "conflict"  // contradicts another field, the mesh or the file's purpose
	CodeNoCell    Code = "no-cell"   // names cells that the study does not measure
	CodeNoEffect  Code = "no-effect" // a level that takes effect in no cell
)

// Error is one error in a study file or a --set flag.
type Error struct {
	Code Code
	Pos  Pos
	Msg  string
	Args []any  // variable parts of Msg
	Hint string // what the field accepts, "" if Msg says it
}

// Error formats position and message, followed by the source line with a marker.
func (e *Error) Error() string {
	if e.Pos.File == "" { // position not known yet
		return e.Msg
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", e.Pos, e.Msg)
	if e.Pos.Line > 0 && e.Pos.Text != "" {
		text, column := excerpt(e.Pos.Text, e.Pos.Column)
		fmt.Fprintf(&b, "\n%5d | %s\n      | %s^", e.Pos.Line, text, strings.Repeat(" ", column-1))
	}
	return b.String()
}

// excerpt returns the part of a line around the column that fits a terminal. Tabs and control
// characters become blanks to keep the marker aligned.
func excerpt(line string, column int) (string, int) {
	const before, width = 60, 100
	runes := []rune(line)
	for i, r := range runes {
		if r < ' ' || r == 0x7f {
			runes[i] = ' '
		}
	}
	column = max(1, min(column, len(runes)+1))
	start := 0
	if column > before+20 {
		start = column - before
	}
	end := min(len(runes), start+width)
	text := string(runes[start:end])
	column -= start
	if start > 0 {
		text = "..." + text
		column += 3
	}
	if end < len(runes) {
		text += "..."
	}
	return strings.TrimRight(text, " "), column
}

// Errors lists all errors found in a study file, in file order.
type Errors []*Error

func (e Errors) Error() string {
	if len(e) == 1 {
		return e[0].Error()
	}
	const most = 10
	var b strings.Builder
	for i, one := range e {
		if i == most {
			fmt.Fprintf(&b, "... and %d more", len(e)-most)
			break
		}
		b.WriteString(one.Error())
		if one.Hint != "" {
			b.WriteString("\n      = " + one.Hint)
		}
		b.WriteString("\n")
	}
	return strings.TrimRight(b.String(), "\n")
}

// err returns the errors as one error with exit code and hint, or nil if there are none.
func (e Errors) err() error {
	if len(e) == 0 {
		return nil
	}
	err := errs.WithCode(e, errs.CodeUsage)
	if len(e) == 1 && e[0].Hint != "" {
		err = errs.WithHint(err, "%s", e[0].Hint)
	}
	return err
}
