package wire

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// ErrMalformed is wrapped by every parse error.
var ErrMalformed = errors.New("malformed discovery message")

// MaxResources limits the resources and the removals of one response. Istiod
// sends a few thousand at most.
const MaxResources = 200_000

// maxNames limits the names that one resource refers to.
const maxNames = 10_000

// field is one field of a message: bytes is set for length-delimited ones,
// number for varints.
type field struct {
	num    protowire.Number
	kind   protowire.Type
	bytes  []byte
	number uint64
}

// cursor walks the fields of a message.
type cursor struct {
	b    []byte
	at   int
	what string
}

// next returns the next field; ok is false at the end.
func (c *cursor) next() (f field, ok bool, err error) {
	if c.at >= len(c.b) {
		return field{}, false, nil
	}
	num, kind, n := protowire.ConsumeTag(c.b[c.at:])
	if n < 0 {
		return field{}, false, c.fail("tag", n)
	}
	c.at += n
	f = field{num: num, kind: kind}
	switch kind {
	case protowire.BytesType:
		f.bytes, n = protowire.ConsumeBytes(c.b[c.at:])
	case protowire.VarintType:
		f.number, n = protowire.ConsumeVarint(c.b[c.at:])
	default:
		n = protowire.ConsumeFieldValue(num, kind, c.b[c.at:])
	}
	if n < 0 {
		return field{}, false, c.fail(fmt.Sprintf("field %d", num), n)
	}
	c.at += n
	return f, true, nil
}

func (c *cursor) fail(where string, n int) error {
	return fmt.Errorf("%w: %s: %s at byte %d: %v", ErrMalformed, c.what, where, c.at, protowire.ParseError(n))
}

// each calls take for every field of a message until it returns an error.
func each(what string, b []byte, take func(f field) error) error {
	c := cursor{b: b, what: what}
	for {
		f, ok, err := c.next()
		if err != nil || !ok {
			return err
		}
		if err := take(f); err != nil {
			return err
		}
	}
}

// within calls take for every field of a message with a number, which must be length-delimited.
func within(what string, b []byte, num protowire.Number, take func(b []byte) error) error {
	return each(what, b, func(f field) error {
		if f.num != num {
			return nil
		}
		if err := f.wantBytes(what); err != nil {
			return err
		}
		return take(f.bytes)
	})
}

// wantBytes returns an error unless the field is length-delimited.
func (f field) wantBytes(what string) error {
	if f.kind != protowire.BytesType {
		return fmt.Errorf("%w: %s: field %d is of wire type %d", ErrMalformed, what, f.num, f.kind)
	}
	return nil
}

func tooMany(what string, limit int) error {
	return fmt.Errorf("%w: more than %d %s", ErrMalformed, limit, what)
}
