package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/meshtrial/meshtrial/internal/errs"
	"golang.org/x/sys/unix"
)

// file is the part of *os.File that an appender uses; tests inject failing
// ones.
type file interface {
	io.Writer
	Sync() error
	Truncate(size int64) error
}

// appender appends whole records to a file.
type appender struct {
	file *os.File
	tree tree // notified of operations
	name string
	wrap func(*os.File) file // nil except in tests
	size int64               // of the part known to be complete
	// broken is set when a failed record could not be removed: another record
	// after it would make the file unreadable.
	broken error
}

// append writes and syncs one record. If that fails it truncates the file to
// its previous size.
func (a *appender) append(data []byte) error {
	if a.broken != nil {
		return a.broken
	}
	var f file = a.file
	if a.wrap != nil {
		f = a.wrap(a.file)
	}
	n, err := f.Write(data)
	a.tree.did(diskOp{op: "write", name: a.name, data: data[:max(n, 0)]})
	if err == nil && n < len(data) {
		err = io.ErrShortWrite
	}
	if err == nil {
		err = a.sync(f)
	}
	if err != nil {
		if cut := errors.Join(a.truncate(f, a.size), a.sync(f)); cut != nil {
			a.broken = fmt.Errorf("an earlier record could not be rolled back: %w", cut)
		}
		return err
	}
	a.size += int64(len(data))
	return nil
}

func (a *appender) sync(f file) error {
	err := f.Sync()
	if err == nil {
		a.tree.did(diskOp{op: "sync", name: a.name})
	}
	return err
}

func (a *appender) truncate(f file, size int64) error {
	err := f.Truncate(size)
	if err == nil {
		a.tree.did(diskOp{op: "truncate", name: a.name, size: size})
	}
	return err
}

// cut removes everything after the first size bytes.
func (a *appender) cut(size int64) error {
	if a.broken != nil || a.size <= size {
		return a.broken
	}
	var f file = a.file
	if a.wrap != nil {
		f = a.wrap(a.file)
	}
	if err := errors.Join(a.truncate(f, size), a.sync(f)); err != nil {
		a.broken = fmt.Errorf("earlier records could not be rolled back: %w", err)
		return a.broken
	}
	a.size = size
	return nil
}

// syncDir makes new entries durable in a directory outside the run's.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return tree{File: d}.sync(d, path)
}

// lockDir locks a directory for one writer.
func lockDir(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, explain(err, path)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errs.WithHint(errs.Usage("another meshtrial is writing to %s", path),
				"wait until it ends, or choose another --out")
		}
		return nil, fmt.Errorf("run directory %s cannot be locked: %w", path, err)
	}
	return f, nil
}

// explain adds what the user can do about a failed write.
func explain(err error, path string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return errs.WithHint(fmt.Errorf("no space left for the run directory %s: %w", path, err),
			"free some space: completed trials are kept")
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.EROFS):
		return errs.WithHint(fmt.Errorf("run directory %s cannot be written: %w", path, err),
			"choose a directory that you may write to: --out; in a container, one on a volume (docker run -v DIR:/results)")
	}
	return fmt.Errorf("run directory %s: %w", path, err)
}
