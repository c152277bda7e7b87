// Package streamtest makes long texts for tests, without holding them.
package streamtest

import "io"

// Parts returns a reader of n texts in a row, each of which is made when it is read.
func Parts(n int, part func(i int) string) io.Reader { return &parts{n: n, part: part} }

type parts struct {
	i, n int
	part func(i int) string
	rest string // of the current text
}

func (p *parts) Read(b []byte) (int, error) {
	for p.rest == "" {
		if p.i == p.n {
			return 0, io.EOF
		}
		p.rest = p.part(p.i)
		p.i++
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}
