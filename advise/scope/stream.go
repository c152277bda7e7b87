package scope

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// guard counts the bytes read, and stops at a value that is too long and at white space
// that is: the decoder scans it again with each read.
type guard struct {
	r      io.Reader
	read   int64
	begun  int64 // start of the value being read
	most   int64
	blanks int   // white space at the end of what was read
	err    error // of r
}

// maxBlanks limits white space in a row, in bytes, and maxDepth the nesting of what is
// skipped, as encoding/json limits that of values.
const (
	maxBlanks = 1 << 20
	maxDepth  = 10_000
)

func (g *guard) Read(b []byte) (int, error) {
	if g.read-g.begun > g.most {
		return 0, fmt.Errorf("a single value is longer than %d MB", g.most>>20)
	}
	n, err := g.r.Read(b)
	g.read += int64(n)
	if rest := len(bytes.TrimRight(b[:n], " \t\r\n")); rest > 0 {
		g.blanks = n - rest
	} else if g.blanks += n; g.blanks > maxBlanks {
		return 0, fmt.Errorf("more than %d MB of white space", maxBlanks>>20)
	}
	if err != nil && err != io.EOF {
		g.err = err
	}
	return n, err
}

// stream reads a JSON page of Envoy's admin interface one value at a time, so
// the largest value bounds memory.
type stream struct {
	guard *guard
	json  *json.Decoder
	page  string // such as "/config_dump", for errors
}

// newStream reads values of at most most bytes.
func newStream(r io.Reader, page string, most int64) *stream {
	g := &guard{r: r, most: most}
	return &stream{guard: g, json: json.NewDecoder(g), page: page}
}

func (s *stream) token() (json.Token, error) {
	s.guard.begun = s.json.InputOffset()
	return s.json.Token()
}

// value reads one complete value.
func (s *stream) value() (jsonNode, error) {
	s.guard.begun = s.json.InputOffset()
	var raw json.RawMessage
	err := s.json.Decode(&raw)
	return jsonNode(raw), err
}

func (s *stream) expect(what json.Delim, of string) error {
	t, err := s.token()
	if err == nil && t != what {
		err = fmt.Errorf("%s is no %s: this is not what %s answers", of, map[json.Delim]string{'{': "object", '[': "list"}[what], s.page)
	}
	return err
}

func (s *stream) lacks(member string) error {
	return fmt.Errorf("it has no %q: this is not what %s answers", member, s.page)
}

// object reads an object to the end of the input; member must read the value of each member. The
// errors io.EOF and io.ErrUnexpectedEOF report that the input ends early.
func (s *stream) object(member func(key string) error) error {
	if err := s.expect('{', "the document"); err != nil {
		return err
	}
	if err := s.members(member); err != nil {
		return err
	}
	_, err := s.token()
	switch {
	case err == nil:
		return errors.New("something follows the document")
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
}

// members reads an object that has begun.
func (s *stream) members(member func(key string) error) error {
	for s.json.More() {
		t, err := s.token()
		if err != nil {
			return err
		}
		key, _ := t.(string)
		if err := member(key); err != nil {
			return err
		}
	}
	_, err := s.token()
	return err
}

// list reads a list; entry must read each of its entries.
func (s *stream) list(name string, entry func() error) error {
	if err := s.expect('[', fmt.Sprintf("%q", name)); err != nil {
		return err
	}
	return s.entries(entry)
}

// entries reads a list that has begun.
func (s *stream) entries(entry func() error) error {
	for s.json.More() {
		if err := entry(); err != nil {
			return err
		}
	}
	_, err := s.token()
	return err
}

// skip skips a value of any size.
func (s *stream) skip() error {
	for depth := 0; ; {
		t, err := s.token()
		if err != nil {
			return err
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			if depth++; depth > maxDepth {
				return fmt.Errorf("values are nested deeper than %d", maxDepth)
			}
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

// ReadObjects calls each with the objects of a list of the Kubernetes API, one
// at a time, or with the document if it is a single object. kind is the kind of
// the list without "List", or "" if it follows the objects.
func ReadObjects(r io.Reader, each func(kind string, object json.RawMessage) error) error {
	s := newStream(r, "kubectl get -o json", MaxResource)
	if err := s.expect('{', "the document"); err != nil {
		return err
	}
	single, kind, listed, kept := map[string]json.RawMessage{}, "", false, 0
	err := s.members(func(name string) error {
		if name == "items" {
			listed = true
			i := 0
			return s.list(name, func() error {
				value, err := s.value()
				if err == nil {
					err = each(kind, json.RawMessage(value))
				}
				if err != nil {
					return fmt.Errorf("items[%d]: %w", i, err)
				}
				i++
				return nil
			})
		}
		value, err := s.value()
		if err != nil {
			return err
		}
		if kept += len(value); kept > MaxResource {
			return fmt.Errorf("the members beside \"items\" are longer than %d MB together: this is not what %s answers", MaxResource>>20, s.page)
		}
		single[name] = json.RawMessage(value)
		if name == "kind" {
			kind = strings.TrimSuffix(value.text(), "List")
		}
		return nil
	})
	if err != nil {
		return err
	}
	if listed {
		return nil
	}
	whole, err := json.Marshal(single)
	if err != nil {
		return err
	}
	return each("", whole)
}
