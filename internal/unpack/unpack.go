// Package unpack decompresses what users bring, as a stream, and refuses files that
// unpack to far more than files of any use do.
package unpack

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
)

// Limits of a gzip stream. JSON, YAML and logs shrink at most a hundredfold; gzip
// allows a thousandfold.
const (
	// MaxBytes is the maximum size unpacked, in bytes.
	MaxBytes = 64 << 30
	// MaxRatio is the maximum ratio of the sizes unpacked and packed, once freeBytes
	// have been unpacked.
	MaxRatio  = 200
	freeBytes = 256 << 20
)

// A BombError reports a stream that unpacks to more than the limits allow.
type BombError struct {
	Unpacked, Packed int64 // bytes so far
}

func (e *BombError) Error() string {
	return fmt.Sprintf("it unpacks to more than is plausible: %d MB from %d MB", e.Unpacked>>20, e.Packed>>20)
}

// Reader returns a reader of r's content: decompressed if r is packed with gzip, as it
// is otherwise. Exceeding a limit is a *BombError.
func Reader(r io.Reader) (io.Reader, error) {
	in := &counter{r: r}
	buffered := bufio.NewReaderSize(in, 64<<10)
	if magic, _ := buffered.Peek(2); string(magic) != "\x1f\x8b" { // an error recurs on the next read
		return buffered, nil
	}
	z, err := gzip.NewReader(buffered)
	if err != nil {
		return nil, err
	}
	return &bounded{z: z, in: in, free: freeBytes, most: MaxBytes}, nil
}

// counter counts the bytes read, including those that are still buffered.
type counter struct {
	r    io.Reader
	read int64
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.read += int64(n)
	return n, err
}

type bounded struct {
	z          io.Reader
	in         *counter
	out        int64
	free, most int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.out > b.most || b.out > b.free && b.out/MaxRatio > b.in.read {
		return 0, &BombError{b.out, b.in.read}
	}
	n, err := b.z.Read(p)
	b.out += int64(n)
	return n, err
}
