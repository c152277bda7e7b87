package profile

import (
	"bytes"
	"compress/gzip"
	"errors"
	"runtime"
	"strings"
	"testing"
)

// packed is data as gzip packs it.
func packed(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// allocated is how many bytes f takes in all.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A small file does not become a large profile.
func TestPprofBounds(t *testing.T) {
	start := "\x0a\x04\x08\x01\x10\x02\x32\x00\x32\x03cpu\x32\x05nanos"
	list := func(field byte, n int) []byte { // a packed list of n zeros in a sample
		inner := append([]byte{field<<3 | 2}, length(n)...)
		inner = append(inner, make([]byte, n)...)
		return append(append([]byte{0x12}, length(len(inner))...), inner...)
	}
	for name, data := range map[string][]byte{
		"samples":      bytes.Repeat([]byte("\x12\x00"), 1<<22),
		"locations":    bytes.Repeat([]byte("\x22\x00"), 1<<22),
		"strings":      bytes.Repeat([]byte("\x32\x00"), 1<<23),
		"labels":       bytes.Repeat([]byte("\x12\x08\x1a\x00\x1a\x00\x1a\x00\x1a\x00"), 1<<22),
		"lines":        bytes.Repeat([]byte("\x22\x08\x22\x00\x22\x00\x22\x00\x22\x00"), 1<<22),
		"values":       bytes.Repeat(list(2, 1<<20), 65),
		"packed twice": packed(t, bytes.Repeat([]byte{0}, 1<<26)),
	} {
		if name != "packed twice" {
			data = append([]byte(start), data...)
		}
		small := packed(t, data)
		var err error
		// Unpacking itself takes a few times the bytes.
		if took := allocated(func() { _, err = ReadPprof(bytes.NewReader(small)) }); took > 8*uint64(len(data))+32<<20 {
			t.Errorf("%s: %d MiB were taken for %d KiB", name, took>>20, len(small)>>10)
		}
		if !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ReadPprof(strings.NewReader(start)); err != nil {
		t.Errorf("an empty profile: %v", err)
	}
}

func length(n int) []byte {
	var out []byte
	for ; n >= 0x80; n >>= 7 {
		out = append(out, byte(n)|0x80)
	}
	return append(out, byte(n))
}
