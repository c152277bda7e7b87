package components

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
)

// FuzzEntry checks that an accepted entry lists only existing files inside its
// folder.
func FuzzEntry(f *testing.F) {
	r := recipe{name: "x", inputs: map[string]any{"a": "b"}}
	for _, files := range []string{`[]`, `[{"path": "a", "size_bytes": 1}]`, `[{"path": "a", "size_bytes": 2}]`, `[{"path": "../../outside", "size_bytes": 1}]`,
		`[{"path": "/etc/passwd"}]`, `[{"path": ""}]`, `[{"path": "a/b"}]`, `null`} {
		f.Add([]byte(`{"name": "x", "key": "` + r.key() + `", "inputs": {"a": "b"}, "files": ` + files + `, "versions": [{"name": "x"}]}`))
	}
	f.Add([]byte(`{"name": "x"`))
	c := cache{dir: f.TempDir()}
	dir := filepath.Join(c.dir, "entries", r.name+"-"+r.key())
	must.OK(f, os.MkdirAll(dir, 0o755))
	for _, path := range []string{filepath.Join(dir, "a"), filepath.Join(c.dir, "outside")} {
		must.OK(f, os.WriteFile(path, []byte("1"), 0o644))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		must.OK(t, os.WriteFile(filepath.Join(dir, "entry.json"), text, 0o644))
		e, ok := c.lookup(r)
		if !ok {
			return
		}
		for _, file := range e.Files {
			if _, err := os.Lstat(e.path(file.Path)); err != nil || !filepath.IsLocal(file.Path) {
				t.Errorf("%q counts as whole, though it lists %q: %v", text, file.Path, err)
			}
		}
	})
}
