package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/shell"
	"github.com/meshtrial/meshtrial/record"
)

// Create creates a run directory. path must not exist, or be an empty
// directory. Nothing is left behind on failure. source is the study file as
// given, resolved the study with every default filled in.
func Create(path string, header record.Header, source, resolved []byte) (*Dir, error) {
	return createWatched(path, header, source, resolved, nil)
}

func createWatched(path string, header record.Header, source, resolved []byte, watch func(diskOp)) (dir *Dir, err error) {
	if header.Schema == 0 {
		header.Schema = record.Schema
	}
	made, err := makeEmpty(path)
	if err != nil {
		return nil, err
	}
	lock, err := lockDir(path)
	if err != nil {
		if made {
			os.Remove(path)
		}
		return nil, err
	}
	d := &Dir{path: path, lock: lock, tree: tree{lock, watch}, done: map[string]bool{}}
	defer func() {
		if err != nil {
			d.closeFiles()
			for _, name := range []string{FileStudy, FileResolved, FileHeader, FileTrials, FileLog, DirHist} {
				os.Remove(filepath.Join(path, name))
			}
			d.tree.removeTemps()
			if made {
				os.Remove(path)
			}
			lock.Close()
			dir = nil
		}
	}()
	if err := d.need(DirHist); err != nil {
		return nil, err
	}
	if err := d.WriteFile(FileStudy, source); err != nil {
		return nil, err
	}
	if err := d.WriteFile(FileResolved, resolved); err != nil {
		return nil, err
	}
	if err := d.openAppends(); err != nil {
		return nil, err
	}
	data, err := indent(header)
	if err != nil {
		return nil, err
	}
	if err := d.WriteFile(FileHeader, data); err != nil {
		return nil, err
	}
	if err := syncDir(filepath.Dir(filepath.Clean(path))); err != nil {
		return nil, explain(err, path)
	}
	return d, nil
}

// Vacant returns why [Create] would fail at path; nil if it would not. It
// changes nothing.
func Vacant(path string) error {
	_, err := vacant(path)
	return err
}

// needRoom is what must be free for a run, in bytes. A short one takes a few MB; what it lacks
// later is noticed when it is written, and costs the trial in which it happens.
const needRoom = 8 << 20

// Room reports why a run cannot be kept in the directory path, which may be yet to be made: its
// file system is full, or cannot be written. A file system without blocks, such as many of FUSE and
// 9p, does not say how full it is: there a folder is made and removed again.
func Room(path string) error {
	for dir := filepath.Clean(path); ; dir = filepath.Dir(dir) {
		var fs unix.Statfs_t
		err := unix.Statfs(dir, &fs)
		if errors.Is(err, unix.ENOENT) && dir != filepath.Dir(dir) {
			continue // the nearest folder above that exists
		}
		if err == nil {
			err = unix.Access(dir, unix.W_OK)
		}
		if err != nil {
			return errs.WithCode(explain(err, path), errs.CodeUsage)
		}
		if fs.Blocks == 0 {
			trial, err := os.MkdirTemp(dir, ".meshtrial-")
			if err != nil { // in /proc ENOENT, although dir exists
				return errs.WithCode(explain(&os.PathError{Op: "write", Path: dir, Err: os.ErrPermission}, path), errs.CodeUsage)
			}
			return os.Remove(trial)
		}
		return enough(fs.Bavail*uint64(fs.Bsize), path)
	}
}

func enough(free uint64, path string) error {
	if free >= needRoom {
		return nil
	}
	return errs.WithHint(errs.Usage("no space left for the run directory %s: %d MB free, at least %d MB needed", path, free>>20, needRoom>>20),
		"free some space, or choose a directory elsewhere with --out; in a container, use a larger volume (docker run -v DIR:/results)")
}

func makeEmpty(path string) (made bool, err error) {
	exists, err := vacant(path)
	if err != nil || exists {
		return false, err
	}
	if err := os.MkdirAll(filepath.Dir(filepath.Clean(path)), 0o755); err != nil {
		return false, explain(err, path)
	}
	if err := os.Mkdir(path, 0o755); err != nil {
		return false, explain(err, path)
	}
	return true, nil
}

// vacant reports whether path is an empty directory (true) or does not exist
// (false). Anything else is an error.
func vacant(path string) (exists bool, err error) {
	entries, err := os.ReadDir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if target, err := os.Readlink(path); err == nil {
			return false, errs.WithHint(errs.Usage("run directory %s is a link to %s, which does not exist", path, target), "create that directory, or name another")
		}
		return false, nil
	case err != nil:
		return false, errs.WithCode(explain(err, path), errs.CodeUsage)
	case len(entries) == 0:
		return true, nil
	}
	err = errs.Usage("run directory %s is not empty", path)
	if _, statErr := os.Stat(filepath.Join(path, FileHeader)); statErr == nil {
		return false, errs.WithHint(err, "it holds a run: continue it with --resume %s, or choose another --out", shell.Quote(path))
	}
	return false, errs.WithHint(err, "choose a directory that does not exist yet: --out")
}
