package scope

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/meshtrial/meshtrial/testing/must"
)

const listYAML = `apiVersion: v1
items:
- apiVersion: v1
  kind: Pod
  metadata:
    annotations:
      text: |
        kind: Service
        - apiVersion: v1
    name: one
- apiVersion: v1
  kind: Secret
  metadata:
    name: {broken
- apiVersion: v1
  kind: Service
  metadata:
    name: two
kind: List
metadata:
  resourceVersion: ""
`

// kindsAndNames are the kinds and names of the objects that are read.
func kindsAndNames(t *testing.T, in io.Reader) (string, int, error) {
	t.Helper()
	var got []string
	broken, err := ReadYAML(in, func(kind string) bool { return kind != "Secret" }, func(raw json.RawMessage) error {
		var o struct {
			Kind     string
			Metadata struct{ Name string }
		}
		must.OK(t, json.Unmarshal(raw, &o))
		if o.Metadata.Name == "" {
			return errors.New("no name")
		}
		got = append(got, o.Kind+"/"+o.Metadata.Name)
		return nil
	})
	return strings.Join(got, " "), broken, err
}

func TestReadYAML(t *testing.T) {
	for name, c := range map[string]struct {
		text, want string
		broken     int
	}{
		"list":          {listYAML, "Pod/one Service/two", 0},
		"indented":      {"items:\n  - kind: Pod\n    metadata: {name: one}\n  - metadata:\n      name: two\n    kind: \"Pod\"\n", "Pod/one Pod/two", 0},
		"documents":     {"kind: Pod\nmetadata: {name: one}\n---\n# two\nkind: Service\nmetadata: {name: two}\n", "Pod/one Service/two", 0},
		"lists":         {listYAML + "---\n" + listYAML, "Pod/one Service/two Pod/one Service/two", 0},
		"one is broken": {"items:\n- kind: Pod\n  metadata: {name: one\n- kind: Pod\n  metadata: {}\n- kind: Pod\n  metadata: {name: two}\n", "Pod/two", 2},
		"a large one":   {"items:\n- kind: Pod\n  x: " + strings.Repeat("y", maxYAML) + "\n- kind: Pod\n  metadata: {name: two}\n", "Pod/two", 1},
		"cut":           {listYAML[:strings.Index(listYAML, "    name: two")+4], "Pod/one", 1},
		"aliases":       {"kind: Pod\nmetadata: {name: one}\na: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n", "", 1},
		"empty":         {"", "", 0},
		"text":          {"a log\nof something\n", "", 0},
	} {
		got, broken, err := kindsAndNames(t, strings.NewReader(c.text))
		if got != c.want || broken != c.broken || (err != nil) != (broken > 0) {
			t.Errorf("%s: %q, %d broken, %v", name, got, broken, err)
		}
	}
	gone := errors.New("the disk is gone")
	got, _, err := kindsAndNames(t, io.MultiReader(strings.NewReader(listYAML), iotest.ErrReader(gone)))
	if got != "Pod/one Service/two" || !errors.Is(err, gone) {
		t.Errorf("%q, %v", got, err)
	}
}

func FuzzReadYAML(f *testing.F) {
	for _, seed := range []string{listYAML, "items:\n  - kind: Pod\n    a: b\n", "kind: x\n---\n", "items:\n- kind: Pod\n  a: &a [*a]\n", "- kind: Pod\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n := 0
		broken, err := ReadYAML(strings.NewReader(text), func(string) bool { return true }, func(raw json.RawMessage) error {
			if n++; !json.Valid(raw) {
				return fmt.Errorf("not JSON: %q", raw)
			}
			return nil
		})
		if (err == nil) != (broken == 0) || n > strings.Count(text, "kind") {
			t.Errorf("%d objects, %d broken, %v", n, broken, err)
		}
	})
}
