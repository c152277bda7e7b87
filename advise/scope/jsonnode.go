package scope

import (
	"bytes"
	"encoding/json"
)

// jsonNode is a JSON value that is known to be well-formed, since the decoder
// read it; nil is the missing value. Fields are found by skipping over the
// others, without building a tree.
type jsonNode []byte

func (n jsonNode) size() int64 { return int64(len(n)) }

func (n jsonNode) get(name string) node {
	var found jsonNode
	n.walk(func(key, value []byte) bool {
		if string(unquoted(key)) == name {
			found = value
			return false
		}
		return true
	})
	return found
}

func (n jsonNode) members(f func(string, node)) {
	n.walk(func(key, value []byte) bool {
		f(jsonNode(key).text(), jsonNode(value))
		return true
	})
}

func (n jsonNode) each(f func(node)) {
	if len(n) == 0 || n[0] != '[' {
		return
	}
	for i := blank(n, 1); i < len(n) && n[i] != ']'; {
		end := skip(n, i)
		f(n[i:end])
		if i = blank(n, end); i < len(n) && n[i] == ',' {
			i = blank(n, i+1)
		}
	}
}

func (n jsonNode) text() string {
	if len(n) == 0 || n[0] != '"' {
		return ""
	}
	if bytes.IndexByte(n, '\\') < 0 {
		return string(unquoted(n))
	}
	var s string
	if json.Unmarshal(n, &s) != nil {
		return ""
	}
	return s
}

// walk calls f with each key, quotes included, and value of an object until f
// returns false.
func (n jsonNode) walk(f func(key, value []byte) bool) {
	if len(n) == 0 || n[0] != '{' {
		return
	}
	for i := blank(n, 1); i < len(n) && n[i] == '"'; {
		end := skip(n, i)
		value := blank(n, blank(n, end)+1) // behind the colon
		valueEnd := skip(n, value)
		if value >= len(n) || !f(n[i:end], n[value:valueEnd]) {
			return
		}
		if i = blank(n, valueEnd); i < len(n) && n[i] == ',' {
			i = blank(n, i+1)
		}
	}
}

func unquoted(s []byte) []byte {
	if len(s) < 2 {
		return nil
	}
	return s[1 : len(s)-1]
}

// blank returns the first position from i on that is no white space.
func blank(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return min(i, len(b))
}

// skip returns the position behind the value that begins at i.
func skip(b []byte, i int) int {
	if i >= len(b) {
		return len(b)
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		for depth := 0; i < len(b); i++ {
			switch b[i] {
			case '"':
				i = skipString(b, i) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
		return len(b)
	}
	for i < len(b) && bytes.IndexByte([]byte(" \n\t\r,]}"), b[i]) < 0 {
		i++
	}
	return i
}

func skipString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}
