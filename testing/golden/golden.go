// Package golden compares what the program writes with files of the repository.
// Tests of a package that imports it accept the flag -update, which rewrites those
// files; review the difference like any other.
package golden

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/testing/module"
	"github.com/meshtrial/meshtrial/testing/must"
)

var update = flag.Bool("update", false, "write golden files and generated documents again; review the difference")

// Updating reports whether to write files rather than compare them.
func Updating() bool { return *update }

// File compares got with the file at path, or writes it there.
func File(t testing.TB, path string, got []byte) {
	t.Helper()
	if *update {
		write(t, path, got)
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; write it: %s", err, command(t))
	}
	if !bytes.Equal(got, want) {
		t.Errorf("differs from %s; if the change is wanted: %s\n%s", path, command(t), FirstDifference(string(got), string(want)))
	}
}

// Section compares got with the part of a document between head and the next tail,
// or the end of the document if tail is empty; or it writes got there.
func Section(t testing.TB, path, head, tail, got string) {
	t.Helper()
	document, err := os.ReadFile(path)
	must.OK(t, err)
	before, rest, ok := strings.Cut(string(document), head)
	if !ok {
		t.Fatalf("%s lacks %q", path, head)
	}
	want, after := rest, ""
	if tail != "" {
		if want, after, ok = strings.Cut(rest, tail); !ok {
			t.Fatalf("%s lacks %q after %q", path, tail, head)
		}
		after = tail + after
	}
	switch {
	case got == want:
	case *update:
		write(t, path, []byte(before+head+got+after))
	default:
		t.Errorf("%s is out of date: %s\n%s", path, command(t), FirstDifference(got, want))
	}
}

// shown limits what is shown of a line, in bytes.
const shown = 200

// FirstDifference shows the first line in which two texts differ; of a long line, the part from
// shortly before the difference.
func FirstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	n := 0
	for n < min(len(g), len(w)) && g[n] == w[n] {
		n++
	}
	line := func(all []string) string {
		if n < len(all) {
			return all[n]
		}
		return "(end)"
	}
	have, expected := line(g), line(w)
	from := 0
	for from < min(len(have), len(expected)) && have[from] == expected[from] {
		from++
	}
	from = max(0, from-shown/2)
	part := func(s string) string {
		if len(s) <= shown {
			return s
		}
		return fmt.Sprintf("...%.*q...", shown, s[from:])
	}
	return fmt.Sprintf("line %d\ngot  %s\nwant %s", n+1, part(have), part(expected))
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.OK(t, os.WriteFile(path, data, 0o644))
}

// command returns the command that rewrites what a test compares. Tests run in
// their package's folder.
func command(t testing.TB) string {
	name, _, _ := strings.Cut(t.Name(), "/")
	return "go test " + testedPackage(t) + " -run '^" + name + "$' -update"
}

// testedPackage returns the folder of the package under test, relative to the
// module's.
func testedPackage(t testing.TB) string {
	root, err := module.Root()
	must.OK(t, err)
	dir, err := os.Getwd()
	must.OK(t, err)
	rel, err := filepath.Rel(root, dir)
	must.OK(t, err)
	return "./" + filepath.ToSlash(rel)
}
