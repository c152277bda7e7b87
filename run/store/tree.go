package store

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// A run directory may come from an untrusted source and contain links to other files of
// this machine. The directory itself may be reached through a link, but no link below
// it is followed: every folder and file is opened through its parent, one step at a
// time. [os.Root] would follow links that stay inside.

// tree is a run directory that is being written.
type tree struct {
	*os.File
	watch func(diskOp) // called with each operation, in tests; otherwise nil
}

// diskOp is one operation on the disk.
type diskOp struct {
	op   string // create, write, sync, rename, syncdir, mkdir, truncate, remove
	name string // relative to the run directory, which is "."
	to   string // of a rename
	data []byte // of a write
	size int64  // of a truncation
}

func (t tree) did(c diskOp) {
	if t.watch != nil {
		t.watch(c)
	}
}

// again repeats a system call that was interrupted by a signal.
func again(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// openFolder opens a folder below root by its relative name; "." is root itself.
func openFolder(root *os.File, name string) (*os.File, error) {
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return nil, fmt.Errorf("%q lies outside the run directory", name)
	}
	at, err := step(root, ".", unix.O_DIRECTORY, 0)
	if name == "." || err != nil {
		return at, err
	}
	for part := range strings.SplitSeq(name, "/") {
		next, err := step(at, part, unix.O_DIRECTORY, 0)
		if err != nil {
			if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
				err = notFolder(at, part)
			}
			return nil, errors.Join(err, at.Close())
		}
		at.Close()
		at = next
	}
	return at, nil
}

// step opens an entry of a folder, by a name with a single element.
func step(folder *os.File, name string, flag int, perm uint32) (*os.File, error) {
	var fd int
	err := again(func() (err error) {
		fd, err = unix.Openat(int(folder.Fd()), name, flag|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, perm)
		return err
	})
	full := filepath.Join(folder.Name(), name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: full, Err: err}
	}
	return os.NewFile(uintptr(fd), full), nil
}

// openAt opens a regular file below root by its relative name. It never blocks, and
// rejects anything else, such as a pipe without a writer.
func openAt(root *os.File, name string, flag int, perm uint32) (*os.File, error) {
	name = filepath.ToSlash(filepath.Clean(name))
	folder, err := openFolder(root, path.Dir(name))
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	file, err := step(folder, path.Base(name), flag, perm)
	switch {
	case err == nil:
		return plain(file)
	case errors.Is(err, unix.ELOOP):
		return nil, notPlain(name, kindOf(fs.ModeSymlink))
	case errors.Is(err, unix.EISDIR):
		return nil, notPlain(name, kindOf(fs.ModeDir))
	case errors.Is(err, unix.ENXIO): // writing to a pipe without a reader
		return nil, notPlain(name, kindOf(fs.ModeNamedPipe))
	}
	return nil, err
}

// openFile opens a file of the run at path for reading.
func openFile(path, name string) (*os.File, error) {
	root, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return openAt(root, name, os.O_RDONLY, 0)
}

// openAppend opens a file that grows, creating it if requested.
func (t tree) openAppend(name string, create bool) (*os.File, error) {
	flag := os.O_RDWR | os.O_APPEND
	if create {
		file, err := openAt(t.File, name, flag|os.O_CREATE|os.O_EXCL, 0o644)
		if err == nil {
			t.did(diskOp{op: "create", name: name})
		}
		if !errors.Is(err, fs.ErrExist) {
			return file, err
		}
	}
	return openAt(t.File, name, flag, 0)
}

// folder opens a folder, durably creating it unless it exists.
func (t tree) folder(name string) (*os.File, error) {
	parent, err := openFolder(t.File, path.Dir(name))
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	mode := uint32(0o755)
	if private(name) {
		mode = 0o700
	}
	switch err := again(func() error { return unix.Mkdirat(int(parent.Fd()), path.Base(name), mode) }); {
	case err == nil:
		t.did(diskOp{op: "mkdir", name: name})
		if err := t.sync(parent, path.Dir(name)); err != nil {
			return nil, err
		}
	case !errors.Is(err, fs.ErrExist):
		return nil, &fs.PathError{Op: "mkdir", Path: filepath.Join(t.Name(), name), Err: err}
	}
	return openFolder(t.File, name)
}

// sync makes entries created in, renamed in or removed from a folder durable.
func (t tree) sync(folder *os.File, name string) error {
	// Some file systems cannot sync directories and do not need it.
	if err := folder.Sync(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	t.did(diskOp{op: "syncdir", name: name})
	return nil
}

// write durably and atomically stores data at name. The folder must exist. A link with
// that name is replaced, not followed.
func (t tree) write(name string, data []byte, mode fs.FileMode) (err error) {
	name = filepath.ToSlash(filepath.Clean(name))
	dir, base := path.Dir(name), path.Base(name)
	folder, err := openFolder(t.File, dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	temp := tempPrefix + base + "-" + strconv.FormatUint(rand.Uint64(), 36)
	file, err := step(folder, temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	told := path.Join(dir, temp)
	t.did(diskOp{op: "create", name: told})
	defer func() {
		if err != nil {
			file.Close()
			_ = unix.Unlinkat(int(folder.Fd()), temp, 0)
		}
	}()
	if _, err := file.Write(data); err != nil {
		return err
	}
	t.did(diskOp{op: "write", name: told, data: data})
	if err := file.Chmod(mode); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	t.did(diskOp{op: "sync", name: told})
	if err := file.Close(); err != nil {
		return err
	}
	if err := again(func() error { return unix.Renameat(int(folder.Fd()), temp, int(folder.Fd()), base) }); err != nil {
		return &os.LinkError{Op: "rename", Old: file.Name(), New: filepath.Join(folder.Name(), base), Err: err}
	}
	t.did(diskOp{op: "rename", name: told, to: name})
	return t.sync(folder, dir)
}

// Temporary reports whether a file of a run directory, given its base name, is still
// being written.
func Temporary(name string) bool { return strings.HasPrefix(name, tempPrefix) }

// removeTemps removes the temporary files of an interrupted writer.
func (t tree) removeTemps() {
	for _, dir := range []string{".", DirHist, DirConfigs, DirProfiles, DirRequests, DirEvidence} {
		folder, err := openFolder(t.File, dir)
		if err != nil {
			continue
		}
		entries, _ := folder.ReadDir(-1) // the readable part
		for _, e := range entries {
			if Temporary(e.Name()) && unix.Unlinkat(int(folder.Fd()), e.Name(), 0) == nil {
				t.did(diskOp{op: "remove", name: path.Join(dir, e.Name())})
			}
		}
		folder.Close()
	}
}

// Folder returns the path in this process of a folder of the run at path, for others to
// read or write its files. It rejects a folder that is or contains a link. The error is
// [fs.ErrNotExist] if the folder does not exist.
func Folder(path, name string) (string, error) {
	root, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer root.Close()
	folder, err := openFolder(root, filepath.ToSlash(name))
	if err != nil {
		return "", err
	}
	defer folder.Close()
	full := filepath.Join(path, filepath.FromSlash(name))
	err = filepath.WalkDir(full, func(at string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !d.Type().IsRegular() {
			within, _ := filepath.Rel(path, at)
			err = notPlain(within, kindOf(d.Type()))
		}
		return err
	})
	return full, err
}

// notFolder describes what exists in place of a run's folder.
func notFolder(parent *os.File, name string) error {
	kind := "a file"
	var stat unix.Stat_t
	if unix.Fstatat(int(parent.Fd()), name, &stat, unix.AT_SYMLINK_NOFOLLOW) == nil && stat.Mode&unix.S_IFMT == unix.S_IFLNK {
		kind = kindOf(fs.ModeSymlink)
	}
	return errs.WithHint(errs.WithCode(fmt.Errorf("%s is not a folder but %s", filepath.Join(parent.Name(), name), kind), errs.CodeUsage),
		"restore the folder itself from a copy of the run directory")
}
