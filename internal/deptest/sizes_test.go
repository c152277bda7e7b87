package deptest

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// How many lines may be read in one piece. A package may have more if a
// sentence of its package comment begins with "Size:" and says why.
const (
	maxFunction = 80
	maxFile     = 400
	maxPackage  = 4000
)

// sizes are lines of packages, files and functions outside tests, by package
// folder, path, and path with the function's name.
type sizes struct {
	packages, files, functions map[string]int
	reasoned                   map[string]bool // packages that say why they are large
}

func measure(t *testing.T, root string) sizes {
	t.Helper()
	s := sizes{map[string]int{}, map[string]int{}, map[string]int{}, map[string]bool{}}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); path != root && err == nil { // another module
				return filepath.SkipDir
			}
			if name := entry.Name(); name == "testdata" || name == "node_modules" || path != root && strings.HasPrefix(name, ".") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return s.add(filepath.ToSlash(relative), text)
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// add measures a file.
func (s *sizes) add(path string, text []byte) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	lines, folder := bytes.Count(text, []byte{'\n'}), filepath.ToSlash(filepath.Dir(path))
	s.files[path] = lines
	s.packages[folder] += lines
	for line := range strings.Lines(file.Doc.Text()) {
		s.reasoned[folder] = s.reasoned[folder] || strings.HasPrefix(line, "Size: ")
	}
	for _, declared := range file.Decls {
		if f, ok := declared.(*ast.FuncDecl); ok {
			name := path + " " + f.Name.Name
			s.functions[name] = max(s.functions[name], files.Position(f.End()).Line-files.Position(f.Pos()).Line+1)
		}
	}
	return nil
}

// above are the entries above a bound.
func above(all map[string]int, most int) map[string]int {
	out := maps.Clone(all)
	maps.DeleteFunc(out, func(_ string, n int) bool { return n <= most })
	return out
}

func TestSizes(t *testing.T) {
	s := measure(t, filepath.Join("..", ".."))
	if s.files["internal/deptest/doc.go"] == 0 {
		t.Fatal("the module's files were not found")
	}
	large := above(s.packages, maxPackage)
	for folder := range s.reasoned {
		if s.packages[folder] <= maxPackage && s.reasoned[folder] {
			t.Errorf("%s says why it is large, and has only %d lines", folder, s.packages[folder])
		}
	}
	maps.DeleteFunc(large, func(folder string, _ int) bool { return s.reasoned[folder] })
	maps.Copy(large, above(s.files, maxFile))
	maps.Copy(large, above(s.functions, maxFunction))
	for _, name := range slices.Sorted(maps.Keys(large)) {
		t.Errorf("%s has %d lines: a function has at most %d, a file %d, a package %d (or says why: see CONTRIBUTING.md)",
			name, large[name], maxFunction, maxFile, maxPackage)
	}
}

// The rules find what they are for.
func TestMeasure(t *testing.T) {
	s := sizes{map[string]int{}, map[string]int{}, map[string]int{}, map[string]bool{}}
	text := "// Package a is for tests.\n//\n// Size: it cannot be otherwise.\npackage a\n\nfunc (x *y) f(\n\ta int,\n) {\n\t_ = a\n}\n"
	if err := s.add("b/a/a.go", []byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := s.add("b/a/b.go", []byte("package a\n")); err != nil {
		t.Fatal(err)
	}
	if s.functions["b/a/a.go f"] != 5 || s.files["b/a/a.go"] != 10 || s.packages["b/a"] != 11 || !s.reasoned["b/a"] {
		t.Errorf("%+v", s)
	}
	if got := above(map[string]int{"a": 4, "b": 5}, 4); len(got) != 1 || got["b"] != 5 {
		t.Errorf("%v", got)
	}
}
