package rights

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/cluster.md again")

// The table of the document is the program's.
//
// go test ./rights -run Document -update
func TestDocument(t *testing.T) {
	const path, head = "../docs/cluster.md", "|---|---|---|---|\n"
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, after, ok := strings.Cut(string(data), head)
	if !ok {
		t.Fatalf("%s has no table", path)
	}
	var want strings.Builder
	for _, f := range Features() {
		without := f.Without
		var parts []string
		for _, r := range f.Rights {
			if r.Optional() && !strings.Contains(without, r.Without) && !strings.Contains(strings.Join(parts, "; "), r.Without) {
				parts = append(parts, fmt.Sprintf("without `%s %s`: %s", strings.Join(r.Verbs, ", "), r.Name(), r.Without))
			}
		}
		if without != "" {
			parts = append([]string{without}, parts...)
		}
		fmt.Fprintf(&want, "| %s | %s | %s | %s |\n", f.Name, f.Doc, cmp.Or(f.Privileged, "nothing"), strings.Join(parts, "; "))
	}
	if after == want.String() {
		return
	}
	if !*update {
		t.Fatalf("%s is out of date: go test ./rights -run Document -update", path)
	}
	if err := os.WriteFile(path, []byte(before+head+want.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
