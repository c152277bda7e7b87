package report

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/testing/must"
)

// Figures and their intervals have the digits they deserve.
func TestFormat(t *testing.T) {
	var cases []struct {
		Unit                string
		Largest             float64
		Estimate, Low, High float64
		Plain, Quantity     string
	}
	data, err := os.ReadFile("testdata/format.json")
	must.OK(t, err)
	must.OK(t, json.Unmarshal(data, &cases))
	for _, c := range cases {
		s := ScaleFor(c.Unit, c.Largest)
		if got := s.Value(c.Estimate); got != c.Plain {
			t.Errorf("%v %s: plain %q, want %q", c.Estimate, c.Unit, got, c.Plain)
		}
		if got := s.Quantity(c.Estimate, c.Low, c.High); got != c.Quantity {
			t.Errorf("%v %s: quantity %q, want %q", c.Estimate, c.Unit, got, c.Quantity)
		}
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain · µs":         "plain · µs",
		"\x1b[31mred":        `\x1b[31mred`,
		"a\nb\tc\r":          `a\nb\tc\r`,
		"\u202eabc\u200b":    `\u202eabc\u200b`,
		"bad \xff byte":      `bad \xff byte`,
		"c1 \u009b31m":       `c1 \x9b31m`,
		"line\u2028para\x7f": `line\u2028para\x7f`,
	} {
		if got := clean(in); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add("a\x1b[0m|<b>`")
	f.Fuzz(func(t *testing.T, s string) {
		for _, r := range clean(s) {
			if words.Hidden(r) {
				t.Fatalf("%q leaves %q", s, r)
			}
		}
		if clean(clean(s)) != clean(s) {
			t.Fatalf("clean(%q) is not stable", s)
		}
		if strings.ContainsAny(markdown(s), "<>\n") {
			t.Fatalf("markdown(%q) leaves markup", s)
		}
		if c := csvText(s); c != "" && strings.ContainsRune("=+-@\t\r\n|", rune(c[0])) {
			t.Fatalf("csvText(%q) leaves a formula", s)
		}
	})
}
