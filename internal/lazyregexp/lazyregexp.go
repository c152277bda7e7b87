// Package lazyregexp has regular expressions that are compiled at first use.
// Expressions with bounds such as {0,251} take up to a hundred kilobytes, which
// a process that never uses them, such as most roles in pods, does not need.
package lazyregexp

import (
	"regexp"
	"sync"
)

// Regexp is a regular expression. It is safe for concurrent use.
type Regexp struct {
	text    string
	compile func() *regexp.Regexp
}

// New returns a regular expression, which must be valid: the first use panics
// otherwise.
func New(text string) *Regexp {
	return &Regexp{text, sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })}
}

// String returns the source text.
func (r *Regexp) String() string { return r.text }

// MatchString is [regexp.Regexp.MatchString].
func (r *Regexp) MatchString(s string) bool { return r.compile().MatchString(s) }

// FindStringSubmatch is [regexp.Regexp.FindStringSubmatch].
func (r *Regexp) FindStringSubmatch(s string) []string { return r.compile().FindStringSubmatch(s) }
