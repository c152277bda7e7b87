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
}

// String is file:line:column.
func (p Pos) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Errorf returns an error at this place, as the parser's own (exit code 2).
func (p Pos) Errorf(hint, format string, args ...any) error {
	return Errors{{Pos: p, Msg: fmt.Sprintf(format, args...), Hint: hint}}.err()
}

// Error is one fault of a study file.
type Error struct {
	Pos  Pos
	Msg  string
	Hint string // what to do, "" if the message says it
}

// Error gives place and message, and below them the line with a mark.
func (e *Error) Error() string {
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
