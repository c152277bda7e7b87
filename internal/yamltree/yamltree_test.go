package yamltree_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/yamltree"
)

var (
	plain   = yamltree.Format{What: "graph", Bytes: 1000, Tokens: 100, Values: 50, Depth: 4}
	aliases = yamltree.Format{What: "study", Bytes: 1000, Tokens: 100, Values: 50, Depth: 16, Aliases: true}
)

// write prints a tree on one line, each value with its position.
func write(n *yamltree.Node) string {
	at := fmt.Sprintf("@%d:%d", n.Line, n.Column)
	var parts []string
	for i, v := range n.Values {
		part := write(v)
		if n.Kind == yamltree.Mapping {
			part = write(n.Keys[i]) + "=" + part
		}
		parts = append(parts, part)
	}
	switch inner := strings.Join(parts, " "); n.Kind {
	case yamltree.Scalar:
		return n.Text + at
	case yamltree.Mapping:
		return "{" + inner + "}" + at
	case yamltree.Sequence:
		return "[" + inner + "]" + at
	}
	return "~" + at
}

func TestRead(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"texts stay texts", "a: off\nb: 1.10\nc: 0x1F\n", "{a@1:1=off@1:4 b@2:1=1.10@2:4 c@3:1=0x1F@3:4}@1:1"},
		{"lists", "a: [x, 'y z']\nb:\n- 1\n- k: v\n", "{a@1:1=[x@1:5 y z@1:8]@1:4 b@2:1=[1@3:3 {k@4:3=v@4:6}@4:3]@3:1}@1:1"},
		{"a value left out", "a:\nb: ~\n", "{a@1:1=~@1:3 b@2:1=~@2:4}@1:1"},
		{"a mark of byte order, and lines of Windows", "\ufeffa: 1\r\nb: 2\r\n", "{a@1:1=1@1:4 b@2:1=2@2:4}@1:1"},
		{"one document after comments", "# a\n---\n# b\na: 1\n", "{a@4:1=1@4:4}@4:1"},
		{"aliases", "a: &x [1, 2]\nb: *x\n", "{a@1:1=[1@1:8 2@1:11]@1:7 b@2:1=[1@1:8 2@1:11]@1:7}@1:1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, err := yamltree.Read([]byte(c.text), aliases)
			if err != nil {
				t.Fatal(err)
			}
			if got := write(n); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
	for _, text := range []string{"", "# nothing but this\n", "---\n"} {
		if n, err := yamltree.Read([]byte(text), plain); err != nil || n != nil && n.Kind != yamltree.Null {
			t.Errorf("%q: %v, %v; want nothing", text, n, err)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for _, c := range []struct {
		name, text string
		format     yamltree.Format
		want       string
	}{
		{"too large", strings.Repeat("#\n", 501), plain, "1002 bytes are more than a graph may have (1000)"},
		{"no text", "a: \xff", plain, "1:1: this line is no UTF-8 text"},
		{"a control character", "a: 1\nb: \x00", plain, "2:4: control character U+0000 has no place in a graph"},
		{"brackets", strings.Repeat("[", 5), plain, "1:5: nested too deep"},
		{"dashes", strings.Repeat("- ", 17), plain, "1:33: nested too deep"},
		{"fields in fields", "a:\n b:\n  c:\n   d:\n    e: 1\n", plain, "5:5: nested too deep"},
		{"blanks", "a:\n" + strings.Repeat(" ", 65) + "b: 1\n", plain, "2:66: indented too deep"},
		{"words", "a: [" + strings.Repeat("1,", 60) + "]\n", plain, "more than 100 words and signs"},
		{"values", "a: &a [1,1,1,1,1,1,1]\nb: &b [*a,*a,*a]\nc: [*b,*b,*b]\n", aliases, "more than 50 values"},
		{"no YAML", "a: [1\nb: 2\n", plain, ":"},
		{"a second document", "a: 1\n---\nb: 1\n", plain, "3:1: a second document begins here"},
		{"an alias where there are none", "a: &x 1\nb: *x\n", plain, "1:4: a graph has no anchors and aliases"},
		{"an alias of nothing", "a: *x\n", aliases, "1:4: there is no anchor &x"},
		{"a circle", "a: &x [*x]\n", aliases, "alias *x contains itself"},
		{"a tag", "a: !!str 1\n", aliases, "1:4: a study has no tags"},
		{"a merge", "a: &x {b: 1}\nc: {<<: *x}\n", aliases, "a study has no merge keys"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, err := yamltree.Read([]byte(c.text), c.format)
			if err == nil {
				t.Fatalf("read as %s", write(n))
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %q, want %q", err, c.want)
			}
			if err.Syntax != (c.name == "no YAML") {
				t.Errorf("%q: is a fault of syntax: %v", err, err.Syntax)
			}
		})
	}
}

// FuzzRead checks that any text gives a tree within its limits, with positions
// inside the text, or one error with a position inside the text.
func FuzzRead(f *testing.F) {
	for _, text := range []string{"a: 1\nb: [x, {c: d}]\n", "a: &x [1]\nb: *x\n", "? [a]\n: b\n", "- - a\n- |\n  text\n", "a: \"", "\ufeff---\n...\n---\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := yamltree.Read(data, aliases)
		if err != nil {
			if lines := yamltree.Lines(data); err.Msg == "" || err.Line > len(lines) {
				t.Errorf("%+v of %d lines", err, len(lines))
			}
			return
		}
		if n == nil {
			return
		}
		values, lines := 0, yamltree.Lines(data)
		var walk func(n *yamltree.Node, depth int)
		walk = func(n *yamltree.Node, depth int) {
			values++
			if depth > aliases.Depth || n.Line < 1 || n.Line > len(lines) || n.Column < 1 || n.Column > len([]rune(lines[n.Line-1]))+1 {
				t.Errorf("value %q at %d:%d, %d deep", n.Text, n.Line, n.Column, depth)
			}
			if n.Kind == yamltree.Mapping && len(n.Keys) != len(n.Values) {
				t.Errorf("%d names of %d values", len(n.Keys), len(n.Values))
			}
			for _, one := range append(n.Keys, n.Values...) {
				walk(one, depth+1)
			}
		}
		walk(n, 0)
		if values > aliases.Values {
			t.Errorf("%d values", values)
		}
	})
}
