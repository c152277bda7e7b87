package study

import (
	"fmt"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// WithFiles returns the study with the contents of the files it names inlined, so that its resolved
// form is self-contained. It returns an error if that would be too long to be read again.
func (s *Study) WithFiles(read func(name string) ([]byte, error)) (*Study, error) {
	out := *s
	if err := s.Kind.spec().Files(&out, read); err != nil {
		return nil, err
	}
	if n := len(out.Marshal()); n > MaxFile {
		return nil, errs.WithHint(errs.Usage("study %s and the files that it names have %d KiB together, Wasm modules in base64; at most %d KiB are possible", s.Name, n>>10, MaxFile>>10),
			"use smaller files, or several studies")
	}
	return &out, nil
}

// ReadLines reads a file named by a field: one entry a line, # begins a comment.
func ReadLines[T any](read func(name string) ([]byte, error), field, name string, most int, what, hint string, parse func(string) (T, *Error)) ([]T, error) {
	data, err := read(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	var out []T
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		pos := Pos{File: name, Line: number, Column: 1, Text: strings.TrimRight(line, "\r\n")}
		text, _, _ := strings.Cut(line, "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		v, c := parse(text)
		if c != nil {
			return nil, pos.Fault(c.Code, c.Hint, "%s", c.Msg)
		}
		if out = append(out, v); len(out) > most {
			return nil, pos.Fault(CodeLimit, "use a sample of them", "more than %d %s", most, what)
		}
	}
	if len(out) == 0 {
		return nil, Pos{File: name}.Fault(CodeConflict, hint, "it holds no %s", what)
	}
	return out, nil
}
