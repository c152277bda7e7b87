package golden

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
)

// failures records what a check reports about a test, instead of failing this
// one.
type failures struct {
	testing.TB
	said strings.Builder
}

func (f *failures) Helper()                        {}
func (f *failures) Errorf(format string, a ...any) { fmt.Fprintf(&f.said, format, a...) }
func (f *failures) Fatalf(format string, a ...any) { f.Errorf(format, a...); panic(f) }
func (f *failures) Fatal(a ...any)                 { fmt.Fprint(&f.said, a...); panic(f) }

// said returns what a check reports about the test, or "" if it passes.
func said(t *testing.T, check func(testing.TB)) string {
	f := &failures{TB: t}
	func() {
		defer func() {
			if p := recover(); p != nil && p != any(f) {
				panic(p)
			}
		}()
		check(f)
	}()
	return f.said.String()
}

// updating makes a check write files.
func updating(t *testing.T, write func()) {
	t.Helper()
	must.OK(t, flag.Set("update", "true"))
	defer flag.Set("update", "false")
	write()
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "testdata", "a.txt")
	const update = "go test ./testing/golden -run '^TestFile$' -update"
	check := func(text string) string {
		return said(t, func(tb testing.TB) { File(tb, path, []byte(text)) })
	}
	if got := check("one\n"); !strings.Contains(got, "no such file") || !strings.Contains(got, update) {
		t.Errorf("of no file: %q", got)
	}
	updating(t, func() { File(t, path, []byte("one\ntwo\n")) })
	if got := check("one\ntwo\n"); got != "" {
		t.Errorf("of the same: %q", got)
	}
	if got := check("one\n2\n"); !strings.Contains(got, "got  2\nwant two") || !strings.Contains(got, update) {
		t.Errorf("of another: %q", got)
	}
	if got := check("one"); !strings.Contains(got, "got  (end)\nwant two") {
		t.Errorf("of a part: %q", got)
	}
	if got := check("one\ntwo\nthree"); !strings.Contains(got, "got  three\nwant ") {
		t.Errorf("of more: %q", got)
	}
	long := strings.Repeat("a", 1000)
	updating(t, func() { File(t, path, []byte("one\n"+long+"b"+long)) })
	if got := check("one\n" + long + "c" + long); !strings.Contains(got, "line 2\n") || !strings.Contains(got, "aca") || !strings.Contains(got, "aba") || len(got) > 800 {
		t.Errorf("of a long line: %q", got)
	}
}

func TestSection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.md")
	must.OK(t, os.WriteFile(path, []byte("text\n|-|\n| old |\n\nmore\n"), 0o644))
	check := func(head, tail, text string) string {
		return said(t, func(tb testing.TB) { Section(tb, path, head, tail, text) })
	}
	if got := check("|-|\n", "\n\n", "| old |"); got != "" {
		t.Errorf("of the same: %q", got)
	}
	if got := check("|-|\n", "", "| old |\n\nmore\n"); got != "" {
		t.Errorf("to the end: %q", got)
	}
	if got := check("|-|\n", "\n\n", "| new |"); !strings.Contains(got, "out of date") {
		t.Errorf("of another: %q", got)
	}
	for _, place := range [][2]string{{"|=|\n", "\n\n"}, {"|-|\n", "\n\n\n"}} {
		if got := check(place[0], place[1], "| old |"); !strings.Contains(got, "lacks") {
			t.Errorf("%q: %q", place, got)
		}
	}
	updating(t, func() { Section(t, path, "|-|\n", "\n\n", "| new |") })
	data, err := os.ReadFile(path)
	if err != nil || string(data) != "text\n|-|\n| new |\n\nmore\n" {
		t.Errorf("%q, %v", data, err)
	}
}
