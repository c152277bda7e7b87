package components

import (
	"context"
	"errors"
	"fmt"
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
func imageRecipe(text string) recipe {
	return recipe{name: "image", inputs: map[string]any{"text": text}, make: func(_ context.Context, dir string) ([]Version, error) {
		return nil, errors.Join(
			os.WriteFile(filepath.Join(dir, "image.tar"), []byte("layers of "+text), 0o644),
			os.WriteFile(filepath.Join(dir, "image.json"), []byte(`{"ref": "`+text+`"}`), 0o644),
			os.MkdirAll(filepath.Join(dir, "folder", "inner"), 0o755),
			os.MkdirAll(filepath.Join(dir, "folder", "empty"), 0o755),
			os.WriteFile(filepath.Join(dir, "folder", "inner", "file"), []byte(text), 0o600),
			os.Symlink("inner", filepath.Join(dir, "folder", "link")))
	}}
}

// An entry gets its name only when the disk holds all of it: first the contents of files,
// then the names in folders, inner folders first. So a power loss leaves no entry or a
// complete one.
func TestEntryIsOnDiskBeforeItHasItsName(t *testing.T) {
	var done []string
	c := cache{dir: t.TempDir(), did: func(op, path string) { done = append(done, op+" "+path) }}
	e, err := c.ensure(t.Context(), imageRecipe("x"))
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

// Any part of an entry that a power loss leaves, on a file system that keeps less than it
// promised or during a removal, is detected and made again.
func TestEntryAfterPowerLoss(t *testing.T) {
	r := imageRecipe("x")
	made, err := cache{dir: t.TempDir()}.ensure(t.Context(), r)
	must.OK(t, err)
	files := []string{"entry.json", "image.tar", "image.json", "folder/inner/file", "folder/link"}
	damages := map[string]func(path string) error{
		"nothing of it": os.Remove,
		"its name":      func(path string) error { return os.Truncate(path, 0) },
		"its beginning": func(path string) error {
			info, err := os.Stat(path)
			return errors.Join(err, os.Truncate(path, info.Size()/2))
		},
		"its length": func(path string) error {
			info, err := os.Stat(path)
			return errors.Join(err, os.Truncate(path, 0), os.Truncate(path, info.Size()))
		},
	}
	count := 0
	for what, damage := range damages {
		for some := 1; some < 1<<len(files); some++ { // all non-empty subsets
			c := cache{dir: t.TempDir()}
			dir := filepath.Join(c.dir, "entries", filepath.Base(made.dir))
			half := filepath.Join(c.dir, "tmp", filepath.Base(made.dir)+"-77")
			for _, to := range []string{dir, half} {
				must.OK(t, os.CopyFS(to, os.DirFS(made.dir)))
				must.OK(t, os.Chmod(filepath.Join(to, "folder", "inner", "file"), 0o600))
			}
			var hit []string
			for i, name := range files {
				if some&(1<<i) == 0 || name == "folder/link" && what != "nothing of it" {
					continue
				}
				hit = append(hit, name)
				must.OK(t, errors.Join(damage(filepath.Join(dir, name)), damage(filepath.Join(half, name))))
			}
			if len(hit) == 0 {
				continue
			}
			count++
			if _, ok, _ := c.verified(r); ok {
				t.Errorf("of %v there is %s, and the entry counts as whole", hit, what)
			}
			e, err := c.ensure(t.Context(), r)
			if err == nil {
				err = e.verify()
			}
			if err != nil {
				t.Errorf("of %v there was %s: %v", hit, what, err)
			}
			nothingLeft(t, c)
		}
	}
	if want := 31 + 3*15*2; count != want {
		t.Error(fmt.Sprint(count, " states, want ", want))
	}
}
