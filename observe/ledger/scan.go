package ledger

import (
	"bytes"
	"encoding/json"
)

// scanObject calls each with the keys and values of a JSON object without
// nested values, in their order. A string's value comes without its quotes
// and with escapes undone, null as nil, anything else as its text. The slices
// are valid during the call only. It reports whether the text is such an
// object and nothing else.
//
// An access log has hundreds of thousands of such lines; this takes a fraction
// of what a general decoder does.
func scanObject(text []byte, each func(key, value []byte)) bool {
	s := scanner{text: text}
	s.space()
	if !s.take('{') {
		return false
	}
	s.space()
	if s.take('}') {
		s.space()
		return len(s.text) == 0
	}
	for {
		key, ok := s.string(&s.keyBuffer)
		if !ok {
			return false
		}
		s.space()
		if !s.take(':') {
			return false
		}
		s.space()
		value, ok := s.value()
		if !ok {
			return false
		}
		each(key, value)
		s.space()
		if s.take('}') {
			s.space()
			return len(s.text) == 0
		}
		if !s.take(',') {
			return false
		}
		s.space()
	}
}

type scanner struct {
	text                   []byte
	keyBuffer, valueBuffer []byte
}

func (s *scanner) space() {
	for len(s.text) > 0 && (s.text[0] == ' ' || s.text[0] == '\t' || s.text[0] == '\r' || s.text[0] == '\n') {
		s.text = s.text[1:]
	}
}

func (s *scanner) take(c byte) bool {
	if len(s.text) == 0 || s.text[0] != c {
		return false
	}
	s.text = s.text[1:]
	return true
}

// string takes a string; one with escapes is undone into buffer.
func (s *scanner) string(buffer *[]byte) ([]byte, bool) {
	if len(s.text) == 0 || s.text[0] != '"' {
		return nil, false
	}
	plain := true
	for i := 1; i < len(s.text); i++ {
		switch c := s.text[i]; {
		case c == '\\':
			plain = false
			i++
		case c < ' ':
			return nil, false
		case c >= 0x80:
			plain = false // perhaps not UTF-8
		case c == '"':
			whole := s.text[:i+1]
			s.text = s.text[i+1:]
			if plain {
				return whole[1:i], true
			}
			var out string
			if json.Unmarshal(whole, &out) != nil {
				return nil, false
			}
			*buffer = append((*buffer)[:0], out...)
			return *buffer, true
		}
	}
	return nil, false
}

var null = []byte("null")

func (s *scanner) value() ([]byte, bool) {
	if len(s.text) > 0 && s.text[0] == '"' {
		value, ok := s.string(&s.valueBuffer)
		if value == nil {
			value = []byte{}
		}
		return value, ok
	}
	end := bytes.IndexAny(s.text, ",} \t\r\n")
	if end <= 0 {
		return nil, false
	}
	word := s.text[:end]
	s.text = s.text[end:]
	if bytes.Equal(word, null) {
		return nil, true
	}
	if c := word[0]; c != 't' && c != 'f' && c != '-' && (c < '0' || c > '9') {
		return nil, false
	}
	return word, json.Valid(word)
}
