package detached

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/run/store"
)

// endName is the last entry of an archive; an archive without it is incomplete. No file of a
// run directory has that name.
const endName = ".meshtrial-end"

// Pack writes a run directory as a tar archive.
func Pack(w io.Writer, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	out := tar.NewWriter(w)
	if err := out.AddFS(root.FS()); err != nil {
		return err
	}
	err = out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: endName, Mode: 0o600})
	return errors.Join(err, out.Close())
}

// Unpack creates the run directory to, which must not exist or be empty, from an archive of
// [Pack]: completely or not at all, and without writing anything outside it.
func Unpack(r io.Reader, to string) (err error) {
	if err := store.Vacant(to); err != nil {
		return err
	}
	to = filepath.Clean(to)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	part, err := os.MkdirTemp(filepath.Dir(to), ".fetch-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(part))
		}
	}()
	root, err := os.OpenRoot(part)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := unpack(tar.NewReader(r), root); err != nil {
		return err
	}
	if err := os.Chmod(part, 0o755); err != nil {
		return err
	}
	if err := syncFolders(part); err != nil {
		return err
	}
	if err := os.Rename(part, to); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(to))
}

// syncFile makes a file or folder durable. Tests replace it.
var syncFile = (*os.File).Sync

// syncFolders makes the new entries of a folder and its subfolders durable.
func syncFolders(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		return syncFolder(path)
	})
}

func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(syncFile(folder), folder.Close())
}

// unpack writes only the files and folders of an archive.
func unpack(in *tar.Reader, root *os.Root) error {
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return errors.New("the archive of the run is truncated")
		}
		if err != nil {
			return fmt.Errorf("the archive of the run: %w", err)
		}
		name := path.Clean(h.Name)
		switch {
		case !filepath.IsLocal(name):
			return fmt.Errorf("the archive of the run contains %q, which lies outside it", h.Name)
		case h.Typeflag == tar.TypeDir:
			err = root.Mkdir(name, 0o755)
		case h.Typeflag != tar.TypeReg:
			err = fmt.Errorf("the archive of the run contains %q, which is neither a file nor a folder", h.Name)
		case name == endName:
			return nil
		default:
			err = unpackFile(in, root, name, fs.FileMode(h.Mode))
		}
		if err != nil {
			return err
		}
	}
}

// unpackFile writes a new file with the permissions from the archive, restricted to those of
// a run's files.
func unpackFile(in io.Reader, root *os.Root, name string, mode fs.FileMode) error {
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode&0o044|0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, in)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errs.WithHint(fmt.Errorf("the archive of the run ends in the middle of %s", name), "fetch it again")
	}
	if err == nil {
		err = syncFile(file)
	}
	return errors.Join(err, file.Close())
}
