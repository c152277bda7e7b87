package components

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/trusted"
)

// identity changes whenever a file is written or replaced. Nobody can set ctime.
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

// summed has the SHA-256 of files that this process has read, by identity.
var summed sync.Map

// sumOnce is [sumFile] of a file that this process may have read before.
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
	changed := func(what string) error { return fmt.Errorf("%s is not as it was made: %s", e.path(f.Path), what) }
	switch {
	case mode.IsRegular() != (f.SHA256 != ""):
		return changed("another kind of file")
	case mode.IsRegular() && info.Size() != f.Size:
		return changed("another size")
	case mode.IsRegular() && mode != f.Mode:
		return changed("another mode")
	}
	if mode&fs.ModeSymlink != 0 {
		if to, err := os.Readlink(e.path(f.Path)); err != nil || to != f.Link {
			return changed("another link")
		}
	}
	return nil
}

// verify reads all files of an entry. It fails if one is not as it was made, or if
// others can write to it.
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
				err = fmt.Errorf("%s is not as it was made: SHA-256 %s, made as %s", e.path(f.Path), sum, f.SHA256)
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
			err = fmt.Errorf("%s was not made with the rest of its folder", path)
		}
		return err
	})
	return errors.Join(group.Wait(), more, whose)
}

// verified finds the entry of r if it exists and is as it was made; why is what is
// wrong with an existing one. It reads the entry's files unless they are trusted.
func (c cache) verified(r recipe) (e entry, ok bool, why error) {
	if e, ok = c.lookup(r); !ok || c.recorded {
		return e, ok, nil
	}
	if err := e.verify(); err != nil {
		return entry{}, false, err
	}
	return e, true, nil
}

// Verify reads an image's archive and checks that it is as it was made.
func (i Image) Verify() error {
	dir := filepath.Dir(i.Path)
	e, ok := cache{dir: filepath.Dir(filepath.Dir(dir))}.open(filepath.Base(dir))
	err := errors.New("its folder is damaged")
	if ok {
		err = e.verify()
	}
	if err != nil {
		return errs.WithHint(fmt.Errorf("image %s: %w", i.Ref, err), "remove %s: the next `meshtrial lab up` makes it again", dir)
	}
	return nil
}
