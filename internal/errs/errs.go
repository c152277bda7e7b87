// Package errs adds to errors what a person at a terminal needs: a hint on what
// to do next, and the exit code that scripts see.
//
// Any layer may wrap an error with [WithHint] or [WithCode]. Only cli reads
// them, with [Hint] and [Code], when it prints the error and ends the program.
package errs

import (
	"context"
	"errors"
	"fmt"
)

// Exit codes of every command.
const (
	CodeOK          = 0   // success
	CodeFailure     = 1   // something went wrong
	CodeUsage       = 2   // wrong usage or input; nothing was started
	CodeAssertion   = 3   // a condition failed: an assertion, a verdict, a margin, an alert
	CodeInvalid     = 4   // not valid, or inconclusive
	CodeInterrupted = 130 // interrupted by the user
)

type coded struct {
	error
	code int
}

func (e coded) Unwrap() error { return e.error }

type hinted struct {
	error
	hint string
}

func (e hinted) Unwrap() error { return e.error }

// WithCode gives err an exit code. A nil err stays nil.
func WithCode(err error, code int) error {
	if err == nil {
		return nil
	}
	return coded{err, code}
}

// WithHint adds what the user can do about err. A nil err stays nil.
func WithHint(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return hinted{err, fmt.Sprintf(format, args...)}
}

// Usage returns an error about wrong usage or input (exit code 2).
func Usage(format string, args ...any) error {
	return coded{fmt.Errorf(format, args...), CodeUsage}
}

// Code returns the exit code of err: the outermost one given by [WithCode] or
// [Usage], 130 for a cancelled context, otherwise 1; 0 for nil.
func Code(err error) int {
	if err == nil {
		return CodeOK
	}
	var c coded
	if errors.As(err, &c) {
		return c.code
	}
	if errors.Is(err, context.Canceled) {
		return CodeInterrupted
	}
	return CodeFailure
}

// Hint returns the outermost hint of err, or "".
func Hint(err error) string {
	var h hinted
	if errors.As(err, &h) {
		return h.hint
	}
	return ""
}
