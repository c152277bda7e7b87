// Package lines reads text line by line in bounded memory.
package lines

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"
)

// Line is a line of a text.
type Line struct {
	Text []byte // without the line's end; valid until the next line is read
	Long bool   // the line is longer than the limit: Text is its beginning
	Cut  bool   // it is the last line, and has no end
}

// Of iterates over the lines of a text. A line of most bytes or more is long. An error of the reader
// ends the iteration, without the line that it cuts.
func Of(r io.Reader, most int) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		in := bufio.NewReaderSize(r, most)
		for {
			text, err := in.ReadSlice('\n')
			long, cut := errors.Is(err, bufio.ErrBufferFull), errors.Is(err, io.EOF)
			if len(text) > 0 && (err == nil || long || cut) {
				text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
				if !yield(Line{text, long, cut}, nil) {
					return
				}
			}
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = in.ReadSlice('\n')
			}
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(Line{}, err)
				return
			}
		}
	}
}
