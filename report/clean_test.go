package report

import (
	"slices"
	"testing"
)

func TestParagraphs(t *testing.T) {
	got := paragraphs("\n A story\nof two lines.\r\n\r\nAnd\tone.\n\n\n")
	if want := []string{"A story of two lines.", "And one."}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if paragraphs(" \n\n ") != nil {
		t.Error("paragraphs of nothing")
	}
}
