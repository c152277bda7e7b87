package components

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
)

// imageRecipe makes what an image consists of, and more: files in folders, a link, and an
// empty folder.
func imageRecipe() recipe {
	return recipe{name: "image", inputs: map[string]any{}, make: func(_ context.Context, dir string) ([]Version, error) {
		return nil, errors.Join(
			os.WriteFile(filepath.Join(dir, "image.tar"), []byte("layers"), 0o644),
			os.WriteFile(filepath.Join(dir, "image.json"), []byte(`{"ref": "x"}`), 0o644),
			os.MkdirAll(filepath.Join(dir, "folder", "inner"), 0o755),
			os.MkdirAll(filepath.Join(dir, "folder", "empty"), 0o755),
			os.WriteFile(filepath.Join(dir, "folder", "inner", "file"), []byte("x"), 0o600),
			os.Symlink("inner", filepath.Join(dir, "folder", "link")))
	}}
}

// An entry gets its name only when the disk holds all of it: first the contents of files,
// then the names in folders, inner folders first. So a power loss leaves no entry or a
// complete one.
func TestEntryIsOnDiskBeforeItHasItsName(t *testing.T) {
	var done []string
	c := cache{dir: t.TempDir(), did: func(op, path string) { done = append(done, op+" "+path) }}
	e, err := c.ensure(t.Context(), imageRecipe())
	must.OK(t, err)
	named := slices.IndexFunc(done, func(s string) bool { return strings.HasPrefix(s, "rename ") })
	if named < 0 || named != len(done)-2 || done[len(done)-1] != "sync "+filepath.Join(c.dir, "entries") {
		t.Fatalf("the name comes before the end: %q", done)
	}
	was := strings.TrimPrefix(done[named], "rename ") // the folder's previous name
	at := func(path string) int {
		rel, err := filepath.Rel(e.dir, path)
		must.OK(t, err)
		return slices.Index(done[:named], "sync "+filepath.Join(was, rel))
	}
	count := 0
	err = filepath.WalkDir(e.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 { // a link is only a name
			return err
		}
		count++
		if at(path) < 0 {
			t.Errorf("%s has its name before the disk has it", path)
		}
		if path != e.dir && at(filepath.Dir(path)) < at(path) {
			t.Errorf("the disk has the names in %s before it has %s", filepath.Dir(path), filepath.Base(path))
		}
		return nil
	})
	if err != nil || count != 8 {
		t.Errorf("%d files and folders, %v", count, err)
	}
}

// A brief entry is not synced, and counts only until the machine starts again.
func TestBriefEntry(t *testing.T) {
	var done []string
	c := cache{dir: t.TempDir(), did: func(op, _ string) { done = append(done, op) }}
	r := imageRecipe()
	r.brief = true
	e, err := c.ensure(t.Context(), r)
	must.OK(t, err)
	if !slices.Equal(done, []string{"rename"}) {
		t.Errorf("%q", done)
	}
	if again, err := c.ensure(t.Context(), r); err != nil || again.dir != e.dir || len(done) != 1 {
		t.Errorf("in the same boot: %q, %v", done, err)
	}
	e.Boot = "another"
	list, err := json.Marshal(e.manifest)
	must.OK(t, err)
	for lost, files := range map[string]struct{ list, image []byte }{
		"nothing":            {list, []byte("layers")},
		"the image's end":    {list, []byte("lay")},
		"the image's bytes":  {list, make([]byte, len("layers"))},
		"the list's end":     {list[:len(list)/2], []byte("layers")},
		"the list's bytes":   {make([]byte, len(list)), []byte("layers")},
		"all that was there": {nil, nil},
	} {
		must.OK(t, os.WriteFile(e.path("entry.json"), files.list, 0o644))
		must.OK(t, os.WriteFile(e.path("image.tar"), files.image, 0o644))
		if _, ok := c.lookup(r); ok {
			t.Errorf("lost %s: an entry of another boot is used", lost)
		}
		again, err := c.ensure(t.Context(), r)
		must.OK(t, err)
		if got, err := os.ReadFile(again.path("image.tar")); err != nil || string(got) != "layers" || again.Boot != thisBoot() {
			t.Errorf("lost %s: it is %q, of boot %q, %v", lost, got, again.Boot, err)
		}
	}
}
