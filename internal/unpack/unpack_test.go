package unpack

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
)

func packed(t testing.TB, text []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(text)
	must.OK(t, err)
	must.OK(t, w.Close())
	return out.Bytes()
}

func TestReader(t *testing.T) {
	for name, c := range map[string]struct {
		in   []byte
		want string
	}{
		"plain":     {[]byte("text"), "text"},
		"empty":     {nil, ""},
		"one byte":  {[]byte("\x1f"), "\x1f"},
		"packed":    {packed(t, []byte("text")), "text"},
		"two parts": {append(packed(t, []byte("one ")), packed(t, []byte("two"))...), "one two"},
	} {
		r, err := Reader(bytes.NewReader(c.in))
		must.OK(t, err)
		got, err := io.ReadAll(r)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// A stream that repeats itself a thousandfold is refused, after what is always allowed; a dense
// one of the same size is not, up to the limit of all.
func TestBombs(t *testing.T) {
	zeros := packed(t, make([]byte, 4<<20))
	for name, c := range map[string]struct {
		free, most int64
		bomb       bool
	}{
		"ratio":   {1 << 20, 1 << 30, true},
		"allowed": {8 << 20, 1 << 30, false},
		"size":    {8 << 20, 1 << 20, true},
	} {
		r, err := Reader(bytes.NewReader(zeros))
		must.OK(t, err)
		b := r.(*bounded)
		b.free, b.most = c.free, c.most
		n, err := io.Copy(io.Discard, r)
		bomb := (*BombError)(nil)
		if errors.As(err, &bomb) != c.bomb || c.bomb && n > 2<<20 || !c.bomb && n != 4<<20 {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
	}
}

func TestCutStream(t *testing.T) {
	whole := packed(t, []byte(strings.Repeat("text", 1000)))
	r, err := Reader(bytes.NewReader(whole[:len(whole)-9]))
	must.OK(t, err)
	if _, err := io.ReadAll(r); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a cut stream: %v", err)
	}
	if _, err := Reader(strings.NewReader("\x1f\x8bno")); err == nil {
		t.Error("a broken header is accepted")
	}
}
