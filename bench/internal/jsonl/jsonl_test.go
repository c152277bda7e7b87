package jsonl

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

type line struct {
	Name string `json:"name"`
}

// What a bench that died left of a line is no line, and goes with the next.
func TestLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.jsonl")
	if lines, err := Read[line](path); err != nil || len(lines) != 0 {
		t.Fatalf("%v, %v", lines, err)
	}
	names := func() (out []string) {
		t.Helper()
		lines, err := Read[line](path)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range lines {
			out = append(out, l.Name)
		}
		return out
	}
	for _, name := range []string{"a", "b"} {
		if err := Append(path, line{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteString(`{"na`)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	if got := names(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("before it goes on: %v", got)
	}
	if err := Append(path, line{Name: "c"}); err != nil {
		t.Fatal(err)
	}
	if got := names(); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("after it went on: %v", got)
	}
	if err := os.WriteFile(path, []byte("{\n{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read[line](path); err == nil || !strings.Contains(err.Error(), "log.jsonl:1:") {
		t.Errorf("a damaged line: %v", err)
	}
}
