package study

import (
	"fmt"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// Pos is a place in a study file or in a --set flag.
type Pos struct {
	File   string // name as given, or "--set FLAG"
	Line   int    // from 1
	Column int    // from 1, in characters
	Text   string // the line
	Field  string // the path of the field, as "blocks.max" or "assert[0]"
}

// String is file:line:column.
func (p Pos) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// flag reports whether the place is a --set flag.
func (p Pos) flag() bool { return strings.HasPrefix(p.File, "--set ") }

// Errorf returns an error at this place, as the parser's own (exit code 2).
func (p Pos) Errorf(hint, format string, args ...any) error {
	return p.Fault(CodeConflict, hint, format, args...)
}

// Fault returns an error at this place.
func (p Pos) Fault(code Code, hint, format string, args ...any) error {
	e := Complain(code, hint, format, args...)
	e.Pos = p
	return Errors{e}.err()
}

// Code says what is wrong with a field of a study.
type Code string

// Codes of errors.
const (
	CodeSyntax    Code = "syntax"    // YAML that a study may not have
	CodeType      Code = "type"      // a mapping, a list or a single value in place of another
	CodeUnknown   Code = "unknown"   // a name that does not exist: of a field, factor, level, step
	CodeMissing   Code = "missing"   // nothing where something is required
	CodeInvalid   Code = "invalid"   // text of another form than the field's
	CodeUnit      Code = "unit"      // a number with no unit, or not one of the field's
	CodeRange     Code = "range"     // a number too small or too large
	CodeDuplicate Code = "duplicate" // the same twice
	CodeKind      Code = "kind"      // part of another kind of study
	CodeLimit     Code = "limit"     // more than the program takes
	CodeConflict  Code = "conflict"  // contradicts another field, the mesh or the file's purpose
	CodeNoCell    Code = "no-cell"   // names cells that the study does not measure
	CodeNoEffect  Code = "no-effect" // a level that takes effect in no cell
)

// Error is one error in a study file or a --set flag.
type Error struct {
	Code Code
	Pos  Pos
	Msg  string
	Args []any  // what Msg says besides its fixed words
	Hint string // what the field accepts, "" if Msg says it
}

// Error gives place and message, and below them the line with a mark.
func (e *Error) Error() string {
	if e.Pos.File == "" { // its place is not known yet
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

// excerpt keeps what a terminal shows of a line around the column, with
// tabs and control characters as blanks so that the mark stands right.
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

// Errors are all faults found in a study file, in its order.
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

// err returns the faults as an error with exit code and hint, nil for none.
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
