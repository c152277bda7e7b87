package lines

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func all(r io.Reader, most int) (out []string, err error) {
	for line, failed := range Of(r, most) {
		if failed != nil {
			return out, failed
		}
		out = append(out, fmt.Sprintf("%s %t %t", line.Text, line.Long, line.Cut))
	}
	return out, nil
}

func TestOf(t *testing.T) {
	text := "a\n\nb\r\n" + strings.Repeat("x", 50) + "\nc"
	want := []string{"a false false", " false false", "b false false", "xxxxxxxxxxxxxxxx true false", "c false true"}
	for _, r := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
		if got, err := all(r, 16); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q, %v", got, err)
		}
	}
	gone := errors.New("the disk is gone")
	got, err := all(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(gone)), 16)
	if !errors.Is(err, gone) || !slices.Equal(got, []string{"a false false"}) {
		t.Errorf("%q, %v", got, err)
	}
	for line := range Of(strings.NewReader("a\nb\n"), 16) {
		if string(line.Text) == "a" {
			break
		}
		t.Error("it goes on")
	}
}
