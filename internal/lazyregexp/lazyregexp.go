// Package lazyregexp holds regular expressions that are compiled when they are
// first used. Those with bounds such as {0,251} take up to a hundred kilobytes,
// which a process that never meets them, as most roles in pods, need not have.
package lazyregexp

import (
	"regexp"
	"sync"
)

// Regexp is a regular expression. It may be used from several goroutines.
type Regexp struct {
	text    string
	compile func() *regexp.Regexp
}

// New returns the expression of a text, which has to be right: the first use
// panics otherwise.
func New(text string) *Regexp {
	return &Regexp{text, sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })}
}

// String is the text.
func (r *Regexp) String() string { return r.text }

// MatchString is that of [regexp.Regexp].
func (r *Regexp) MatchString(s string) bool { return r.compile().MatchString(s) }

// FindStringSubmatch is that of [regexp.Regexp].
func (r *Regexp) FindStringSubmatch(s string) []string { return r.compile().FindStringSubmatch(s) }
