package components

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/trusted"
)

// cache keeps entries under names that say what they were made from.
//
//	entries/NAME-KEY/     what was made, and entry.json
//	tmp/NAME-KEY-*/       being made; renamed into entries when the disk has all of it
//	locks/NAME-KEY.lock   held while it is made
//
// An entry never changes. One that was changed is made again: a lookup notices by
// sizes, modes and links, a use by digests.
type cache struct {
	dir      string
	recorded bool // trust entry.json, do not read files
	// did lets tests follow the disk: sync (of a file or a folder), rename.
	did func(op, path string)
}

func (c cache) trace(op, path string) {
	if c.did != nil {
		c.did(op, path)
	}
}

// entry is one folder of the cache.
type entry struct {
	dir string
	manifest
}

// manifest is entry.json.
type manifest struct {
	Name     string         `json:"name"`
	Key      string         `json:"key"`
	Inputs   map[string]any `json:"inputs"` // all that Key is a hash of
	Files    []file         `json:"files"`
	Versions []Version      `json:"versions,omitempty"`
}

type file struct {
	Path   string      `json:"path"`
	Size   int64       `json:"size_bytes"`
	SHA256 string      `json:"sha256,omitempty"` // of regular files
	Mode   fs.FileMode `json:"mode,omitempty"`   // of regular files
	Link   string      `json:"link,omitempty"`   // target of a symbolic link
}

func (e entry) path(name string) string { return filepath.Join(e.dir, name) }

func (e entry) digest(path string) string {
	for _, f := range e.Files {
		if f.Path == path {
			return "sha256:" + f.SHA256
		}
	}
	return ""
}

// recipe says how an entry is made.
type recipe struct {
	name   string
	inputs map[string]any
	// make fills dir. It returns the versions of what it put there.
	make func(ctx context.Context, dir string) ([]Version, error)
	// wait is called once if another builder is making the entry. May be nil.
	wait func()
}

func (r recipe) key() string {
	b, err := json.Marshal(r.inputs) // map keys come out sorted
	if err != nil {
		panic(fmt.Sprintf("components: inputs of %s: %v", r.name, err)) // strings and lists of them only
	}
	sum := sha256.Sum256(append([]byte(r.name+"\n"), b...))
	return hex.EncodeToString(sum[:12])
}

// lookup finds the entry of r if it exists and looks unchanged.
func (c cache) lookup(r recipe) (entry, bool) {
	return c.open(r.name + "-" + r.key())
}

func (c cache) open(id string) (entry, bool) {
	e := entry{dir: filepath.Join(c.dir, "entries", id)}
	b, err := os.ReadFile(e.path("entry.json"))
	if err != nil || json.Unmarshal(b, &e.manifest) != nil {
		return entry{}, false
	}
	for _, f := range e.Files {
		if !filepath.IsLocal(f.Path) || e.same(f) != nil {
			return entry{}, false
		}
	}
	return e, e.Name+"-"+e.Key == id
}

// ensure returns the entry of r, and makes it first if it is not there. Of
// all builders that want the same entry at once, in any process, one makes
// it and the others wait.
func (c cache) ensure(ctx context.Context, r recipe) (entry, error) {
	if e, ok, _ := c.verified(r); ok {
		return e, nil
	}
	id := r.name + "-" + r.key()
	for _, dir := range []string{"entries", "tmp", "locks"} {
		if err := os.MkdirAll(filepath.Join(c.dir, dir), 0o755); err != nil {
			return entry{}, errs.WithHint(fmt.Errorf("cache of components: %w", err),
				"set MESHTRIAL_CACHE to a folder that can be written")
		}
		if _, err := trusted.Folder(filepath.Join(c.dir, dir)); err != nil {
			return entry{}, fmt.Errorf("cache of components: %w", err)
		}
	}
	unlock, err := lock(ctx, filepath.Join(c.dir, "locks", id+".lock"), r.wait)
	if err != nil {
		return entry{}, fmt.Errorf("%s: %w", r.name, err)
	}
	defer unlock()
	if e, ok, _ := c.verified(r); ok {
		return e, nil
	}
	if err := c.sweep(id); err != nil {
		return entry{}, err
	}
	tmp, err := os.MkdirTemp(filepath.Join(c.dir, "tmp"), id+"-")
	if err != nil {
		return entry{}, err
	}
	defer removeAll(tmp)
	versions, err := r.make(ctx, tmp)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		if errors.Is(err, syscall.ENOSPC) {
			err = errs.WithHint(err, "the disk with %s is full: free some room, or set MESHTRIAL_CACHE", c.dir)
		}
		return entry{}, fmt.Errorf("%s: %w", r.name, err)
	}
	if err := c.seal(tmp, manifest{Name: r.name, Key: r.key(), Inputs: r.inputs, Versions: versions}); err != nil {
		return entry{}, fmt.Errorf("%s: %w", r.name, err)
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return entry{}, err
	}
	if err := os.Rename(tmp, filepath.Join(c.dir, "entries", id)); err != nil {
		return entry{}, fmt.Errorf("%s: %w", r.name, err)
	}
	c.trace("rename", tmp)
	if err := c.syncDir(filepath.Join(c.dir, "entries")); err != nil {
		return entry{}, err
	}
	e, ok := c.lookup(r)
	if !ok {
		return entry{}, fmt.Errorf("%s: the cache entry %s vanished after it was written", r.name, id)
	}
	return e, nil
}

// sweep removes what an interrupted builder left of id, and an entry that is
// no longer whole. The caller holds the entry's lock, so nobody works there.
func (c cache) sweep(id string) error {
	left, err := filepath.Glob(filepath.Join(c.dir, "tmp", id+"-*"))
	if err != nil {
		return err
	}
	broken := filepath.Join(c.dir, "entries", id)
	if _, err := os.Lstat(broken); err == nil {
		left = append(left, broken)
	}
	for _, dir := range left {
		if err := removeAll(dir); err != nil {
			return err
		}
	}
	return c.sweepOthers()
}

// sweepOthers removes what interrupted builders left of entries that may
// never be asked for again, since what they are made from has changed. Whose
// lock is free has no builder.
func (c cache) sweepOthers() error {
	dirs, err := filepath.Glob(filepath.Join(c.dir, "tmp", "*-*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		id := filepath.Base(dir)
		id = id[:strings.LastIndex(id, "-")]
		unlock, err := tryLock(filepath.Join(c.dir, "locks", id+".lock"))
		if err != nil {
			continue // it is being made
		}
		err = removeAll(dir)
		unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// prune removes all but the keep entries of the given name that were made or
// used last.
func (c cache) prune(name string, keep int) error {
	dirs, err := filepath.Glob(filepath.Join(c.dir, "entries", name+"-*"))
	if err != nil {
		return err
	}
	type aged struct {
		dir string
		at  time.Time
	}
	var all []aged
	for _, d := range dirs {
		if id := strings.TrimPrefix(filepath.Base(d), name+"-"); strings.Contains(id, "-") {
			continue // another name that begins alike
		}
		if info, err := os.Stat(d); err == nil {
			all = append(all, aged{d, info.ModTime()})
		}
	}
	slices.SortFunc(all, func(a, b aged) int { return b.at.Compare(a.at) })
	for _, old := range all[min(keep, len(all)):] {
		if err := removeAll(old.dir); err != nil {
			return err
		}
	}
	return nil
}

// seal writes entry.json for what dir holds, and has the disk hold it too. The
// right to write is its owner's alone, whatever the umask was.
func (c cache) seal(dir string, m manifest) error {
	var folders []string // the outer before the inner
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := info.Mode() &^ 0o022
		if d.Type()&fs.ModeSymlink == 0 && mode != info.Mode() {
			if err := os.Chmod(path, mode); err != nil {
				return err
			}
		}
		if d.IsDir() {
			folders = append(folders, path)
			return nil
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		f := file{Path: rel}
		switch {
		case d.Type().IsRegular():
			if f.Size, f.SHA256, err = sumFile(path, true); err != nil {
				return err
			}
			c.trace("sync", path)
			f.Mode = mode
		case d.Type()&fs.ModeSymlink != 0:
			if f.Link, err = os.Readlink(path); err != nil {
				return err
			}
		}
		m.Files = append(m.Files, f)
		return nil
	})
	if err != nil {
		return err
	}
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	list := filepath.Join(dir, "entry.json")
	if err := writeFile(list, append(b, '\n')); err != nil {
		return err
	}
	c.trace("sync", list)
	for _, folder := range slices.Backward(folders) { // their names
		if err := c.syncDir(folder); err != nil {
			return err
		}
	}
	return nil
}

func (c cache) syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	if err = errors.Join(d.Sync(), d.Close()); err == nil {
		c.trace("sync", dir)
	}
	return err
}
