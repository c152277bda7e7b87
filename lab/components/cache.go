package components

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/trusted"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/observe/procfs"
)

// cache keeps entries under names with a hash of what they were made from.
//
//	entries/NAME-KEY/     what was made, and entry.json
//	tmp/NAME-KEY-*/       being made; renamed into entries once synced to disk
//	                      (brief ones are not, and count only until the next boot)
//	locks/NAME-KEY.lock   held while it is made
//
// An entry never changes. An entry that was modified is made again: a lookup detects
// modifications by sizes, modes and links, a use by digests. A second, read-only folder
// may hold entries as well.
type cache struct {
	dir      string
	base     string // the second folder; "" for none
	recorded bool   // trust entry.json, do not read files
	// did reports disk operations to tests: sync (of a file or folder) and rename.
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
	Inputs   map[string]any `json:"inputs"` // Key is the hash of these
	Files    []file         `json:"files"`
	Versions []Version      `json:"versions,omitempty"`
	Boot     string         `json:"boot,omitempty"` // of a brief entry: the boot in which it was made
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

// recipe makes an entry.
type recipe struct {
	name   string
	inputs map[string]any
	// make fills dir and returns the versions of its contents.
	make func(ctx context.Context, dir string) ([]Version, error)
	// brief: the entry is quickly made again, from other entries. It is not synced, which would take
	// longer than making it, so a power loss may tear it.
	brief bool
	// wait is called once if another builder is making the entry. May be nil.
	wait func()
}

func (r recipe) key() string {
	b, err := json.Marshal(r.inputs) // sorts the keys of maps
	if err != nil {
		panic(fmt.Sprintf("components: inputs of %s: %v", r.name, err)) // inputs are only strings and lists of them
	}
	sum := sha256.Sum256(append([]byte(r.name+"\n"), b...))
	return hex.EncodeToString(sum[:12])
}

// lookup returns the entry of r if it exists and appears unchanged.
func (c cache) lookup(r recipe) (entry, bool) {
	return c.open(r.name + "-" + r.key())
}

func (c cache) open(id string) (entry, bool) {
	e, ok := openEntry(c.dir, id)
	if !ok && c.base != "" {
		return openEntry(c.base, id)
	}
	return e, ok
}

func openEntry(cache, id string) (entry, bool) {
	e := entry{dir: filepath.Join(cache, "entries", id)}
	b, err := os.ReadFile(e.path("entry.json"))
	if err != nil || json.Unmarshal(b, &e.manifest) != nil {
		return entry{}, false
	}
	if e.Boot != "" && e.Boot != thisBoot() {
		return entry{}, false
	}
	for _, f := range e.Files {
		if !filepath.IsLocal(f.Path) || e.same(f) != nil {
			return entry{}, false
		}
	}
	return e, e.Name+"-"+e.Key == id
}

// ensure returns the entry of r, making it if necessary. If several builders, in any
// process, want the same entry, one makes it and the others wait.
func (c cache) ensure(ctx context.Context, r recipe) (entry, error) {
	if e, ok, _ := c.verified(r); ok {
		return e, nil
	}
	id := r.name + "-" + r.key()
	for _, dir := range []string{"entries", "tmp", "locks"} {
		if err := os.MkdirAll(filepath.Join(c.dir, dir), 0o755); err != nil {
			return entry{}, errs.WithHint(fmt.Errorf("cache of components: %w", err),
				"set MESHTRIAL_CACHE to a writable folder")
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
			err = errs.WithHint(err, "the disk with %s is full: free some space, or set MESHTRIAL_CACHE", c.dir)
		}
		return entry{}, fmt.Errorf("%s: %w", r.name, err)
	}
	m := manifest{Name: r.name, Key: r.key(), Inputs: r.inputs, Versions: versions}
	if r.brief {
		m.Boot = thisBoot()
	}
	if err := c.seal(tmp, m); err != nil {
		return entry{}, fmt.Errorf("%s: %w", r.name, err)
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return entry{}, err
	}
	if err := os.Rename(tmp, filepath.Join(c.dir, "entries", id)); err != nil {
		return entry{}, fmt.Errorf("%s: %w", r.name, err)
	}
	c.trace("rename", tmp)
	if m.Boot == "" {
		if err := c.syncDir(filepath.Join(c.dir, "entries")); err != nil {
			return entry{}, err
		}
	}
	e, ok := c.lookup(r)
	if !ok {
		return entry{}, fmt.Errorf("%s: the cache entry %s vanished after it was written", r.name, id)
	}
	return e, nil
}

// sweep removes an interrupted builder's leftovers of id, and a damaged entry. The
// caller holds the entry's lock.
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

// sweepOthers removes interrupted builders' leftovers of other entries, which may never be
// requested again. An entry whose lock is free has no builder.
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
			continue // still being made
		}
		err = removeAll(dir)
		unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// prune removes the entries of the given name except the keep most recently made or used.
func (c cache) prune(name string, keep int) error {
	dirs, err := filepath.Glob(filepath.Join(c.dir, "entries", name+"-*"))
	if err != nil {
		return err
	}
	var all []string
	at := map[string]time.Time{}
	for _, d := range dirs {
		if id := strings.TrimPrefix(filepath.Base(d), name+"-"); strings.Contains(id, "-") {
			continue // another name with the same prefix
		}
		if info, err := os.Stat(d); err == nil {
			all, at[d] = append(all, d), info.ModTime()
		}
	}
	slices.SortFunc(all, func(a, b string) int { return at[b].Compare(at[a]) })
	for _, old := range all[min(keep, len(all)):] {
		err = errors.Join(err, removeAll(old))
	}
	return err
}

// thisBoot identifies the machine's current boot; "" if that is unknown, as it never is on Linux.
func thisBoot() string {
	id, _ := procfs.BootID()
	return id
}

// seal writes entry.json for the files in dir, and syncs everything to disk unless the entry is
// brief. Whatever the umask, it leaves write permission only to the owner, and no file is setuid.
func (c cache) seal(dir string, m manifest) error {
	sync := m.Boot == ""
	var folders []string // outer folders before inner ones
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := info.Mode() &^ (0o022 | fs.ModeSetuid | fs.ModeSetgid)
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
			if f.Size, f.SHA256, err = sumFile(path, sync); err != nil {
				return err
			}
			if sync {
				c.trace("sync", path)
			}
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
	if !sync {
		return os.WriteFile(list, append(b, '\n'), 0o644)
	}
	if err := writeFile(list, append(b, '\n')); err != nil {
		return err
	}
	c.trace("sync", list)
	for _, folder := range slices.Backward(folders) { // sync the names in the folders
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

// sumFile returns a file's size and SHA-256, and optionally syncs it.
func sumFile(path string, sync bool) (int64, string, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err == nil && sync {
		err = f.Sync()
	}
	return n, hex.EncodeToString(h.Sum(nil)), err
}

func writeFile(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	if _, err = f.Write(b); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// removeAll is os.RemoveAll for trees with folders that lack write permission, as unpacked
// packages may.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// lock takes the lock on path, which ends with this process. It calls waiting once if the
// lock is taken.
func lock(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	for first := true; ; first = false {
		unlock, err := tryLock(path)
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return unlock, err
		}
		if first && waiting != nil {
			waiting()
		}
		if err := wake.Pause(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

func tryLock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}

// identity changes whenever a file is written or replaced: ctime cannot be set.
type identity struct {
	dev, ino     uint64
	size         int64
	mtime, ctime syscall.Timespec
}

func identify(info fs.FileInfo) (identity, bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return identity{}, false
	}
	return identity{uint64(s.Dev), s.Ino, s.Size, s.Mtim, s.Ctim}, true
}

// summed holds the SHA-256 of files that this process has read, by identity.
var summed sync.Map

// sumOnce is [sumFile] for a file that this process may have read before.
func sumOnce(path string) (string, error) {
	before, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	id, known := identify(before)
	if sum, ok := summed.Load(id); known && ok {
		return sum.(string), nil
	}
	_, sum, err := sumFile(path, false)
	if err != nil {
		return "", err
	}
	if after, err := os.Lstat(path); known && err == nil {
		if now, _ := identify(after); now == id {
			summed.Store(id, sum)
		}
	}
	return sum, nil
}

// same checks a listed file by its metadata, without reading it.
func (e entry) same(f file) error {
	info, err := os.Lstat(e.path(f.Path))
	if err != nil {
		return err
	}
	mode := info.Mode()
	changed := func(what string) error { return fmt.Errorf("%s was modified: %s", e.path(f.Path), what) }
	switch {
	case mode.IsRegular() != (f.SHA256 != ""):
		return changed("its type changed")
	case mode.IsRegular() && info.Size() != f.Size:
		return changed("its size changed")
	case mode.IsRegular() && mode != f.Mode:
		return changed("its mode changed")
	}
	if mode&fs.ModeSymlink != 0 {
		if to, err := os.Readlink(e.path(f.Path)); err != nil || to != f.Link {
			return changed("its link changed")
		}
	}
	return nil
}

// verify reads all files of an entry. It fails if a file was modified or is writable by
// others.
func (e entry) verify() error {
	listed := map[string]bool{"entry.json": true}
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, f := range e.Files {
		listed[f.Path] = true
		group.Go(func() error {
			if err := e.same(f); err != nil || f.SHA256 == "" {
				return err
			}
			sum, err := sumOnce(e.path(f.Path))
			if err == nil && sum != f.SHA256 {
				err = fmt.Errorf("%s was modified: its SHA-256 is %s, not %s", e.path(f.Path), sum, f.SHA256)
			}
			return err
		})
	}
	_, whose := trusted.Tree(e.dir)
	more := filepath.WalkDir(e.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(e.dir, path)
		if err == nil && !listed[rel] {
			err = fmt.Errorf("%s was added to its folder later", path)
		}
		return err
	})
	return errors.Join(group.Wait(), more, whose)
}

// verified returns the entry of r if it exists and was not modified; why explains what is
// wrong with an existing entry. It reads the entry's files unless they are trusted.
func (c cache) verified(r recipe) (e entry, ok bool, why error) {
	if e, ok = c.lookup(r); !ok || c.recorded {
		return e, ok, nil
	}
	if err := e.verify(); err != nil {
		return entry{}, false, err
	}
	return e, true, nil
}

// Verify reads an image's archive and checks that it was not modified.
func (i Image) Verify() error {
	dir := filepath.Dir(i.Path)
	e, ok := cache{dir: filepath.Dir(filepath.Dir(dir))}.open(filepath.Base(dir))
	err := errors.New("its folder is damaged")
	if ok {
		err = e.verify()
	}
	if err != nil {
		return errs.WithHint(fmt.Errorf("image %s: %w", i.Ref, err), "remove %s: the next `meshtrial lab up` rebuilds it", dir)
	}
	return nil
}
