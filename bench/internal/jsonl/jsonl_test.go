package jsonl

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
)

type line struct {
	Name string `json:"name"`
}

// A partial line left by a crashed bench does not count, and is replaced by the
// next.
func TestLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.jsonl")
	if lines, err := Read[line](path); err != nil || len(lines) != 0 {
		t.Fatalf("%v, %v", lines, err)
	}
	names := func() (out []string) {
		t.Helper()
		lines, err := Read[line](path)
		must.OK(t, err)
		for _, l := range lines {
			out = append(out, l.Name)
		}
		return out
	}
	for _, name := range []string{"a", "b"} {
		must.OK(t, Append(path, line{Name: name}))
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	must.OK(t, err)
	_, err = file.WriteString(`{"na`)
	must.OK(t, errors.Join(err, file.Close()))
	if got := names(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("before it goes on: %v", got)
	}
	must.OK(t, Append(path, line{Name: "c"}))
	if got := names(); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("after it went on: %v", got)
	}
	must.OK(t, os.WriteFile(path, []byte("{\n{}\n"), 0o600))
	if _, err := Read[line](path); err == nil || !strings.Contains(err.Error(), "log.jsonl:1:") {
		t.Errorf("a damaged line: %v", err)
	}
}
