package table

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	broken := errors.New("broken")
	parts := []Part{
		{"one", func(context.Context) ([]Row, error) { return []Row{Of("a", "s", 1)}, nil }},
		{"two", func(context.Context) ([]Row, error) { return []Row{Of("b", "s", 2)}, nil }},
		{"bad", func(context.Context) ([]Row, error) { return []Row{Of("half", "s", 3)}, broken }},
	}
	for _, c := range []struct {
		only, rows, err string
	}{
		{"one,two", "a b", ""},
		{"two", "b", ""},
		{"two,one", "b a", ""},
		{"one,bad,two", "a half", "bad: broken"},
		{"one,three", "a", `-only "three": want some of one,two,bad`},
		{"", "", `-only "": want some of one,two,bad`},
	} {
		rows, err := Run(t.Context(), c.only, parts)
		var names []string
		for _, r := range rows {
			names = append(names, r.Name)
		}
		said := ""
		if err != nil {
			said = err.Error()
		}
		if strings.Join(names, " ") != c.rows || said != c.err {
			t.Errorf("%q: rows %v, error %q, want %q, %q", c.only, names, said, c.rows, c.err)
		}
	}
	if _, err := Run(t.Context(), "bad", parts); !errors.Is(err, broken) {
		t.Errorf("%v does not wrap the part's error", err)
	}
}

// TestReport: what there is is printed whatever happened; only a whole run is
// written and judged.
func TestReport(t *testing.T) {
	missed := []Row{Of("slow", "s", 3).AtMost(2)}
	broken := errors.New("broken")
	for _, c := range []struct {
		failed, want error
		written      bool
	}{{broken, broken, false}, {nil, ErrMissed, true}} {
		file := filepath.Join(t.TempDir(), "out.json")
		var out strings.Builder
		err := Report(&out, "title", missed, c.failed, file, missed)
		_, stat := os.Stat(file)
		if !errors.Is(err, c.want) || !strings.Contains(out.String(), "slow") || (stat == nil) != c.written {
			t.Errorf("after %v: error %v, file %v, printed %q", c.failed, err, stat, out.String())
		}
	}
}
