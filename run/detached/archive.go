package detached

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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

// sumsName is the last entry of an archive: the SHA-256 of every file in it, as JSON.
// No file of a run directory is called so.
const sumsName = ".meshtrial-sums"

// maxSums bounds that entry, in bytes.
const maxSums = 64 << 20

// Pack writes a run directory as a tar archive. What is neither file nor folder is
// refused, links among it.
func Pack(w io.Writer, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	out, sums := tar.NewWriter(w), map[string]string{}
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || name == ".":
			return err
		case entry.IsDir():
			return out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755})
		case !entry.Type().IsRegular() || name == sumsName:
			return fmt.Errorf("%s is no file of a run", filepath.Join(dir, name))
		}
		sums[name], err = packFile(out, root, name)
		return err
	})
	if err != nil {
		return err
	}
	text, err := json.Marshal(sums)
	if err != nil {
		return err
	}
	err = out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: sumsName, Mode: 0o600, Size: int64(len(text))})
	if err == nil {
		_, err = out.Write(text)
	}
	return errors.Join(err, out.Close())
}

// packFile writes one file as long as it was when it was opened, and returns its sum.
func packFile(out *tar.Writer, root *os.Root, name string) (string, error) {
	file, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(info.Mode().Perm()), Size: info.Size(), ModTime: info.ModTime()}); err != nil {
		return "", err
	}
	sum := sha256.New()
	_, err = io.CopyN(io.MultiWriter(out, sum), file, info.Size())
	return hex.EncodeToString(sum.Sum(nil)), err
}

// Unpack makes of an archive of [Pack] the run directory to, which must not be there, or
// be empty. It is made whole or not at all, and nothing outside of it is written.
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

// syncFile makes a file or folder durable. Tests watch it.
var syncFile = (*os.File).Sync

// syncFolders makes durable what was made in a folder and below it.
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

// unpack writes what an archive has, and holds it against the archive's last entry.
func unpack(in *tar.Reader, root *os.Root) error {
	got := map[string]string{}
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return errors.New("the archive of the run ends before it is whole")
		}
		if err != nil {
			return fmt.Errorf("the archive of the run: %w", err)
		}
		name := path.Clean(h.Name)
		switch {
		case !filepath.IsLocal(name):
			return fmt.Errorf("the archive of the run has %q, which lies outside of it", h.Name)
		case h.Typeflag == tar.TypeDir:
			err = root.Mkdir(name, 0o755)
		case h.Typeflag != tar.TypeReg:
			err = fmt.Errorf("the archive of the run has %q, which is neither file nor folder", h.Name)
		case name == sumsName:
			return whole(in, got)
		default:
			got[name], err = unpackFile(in, root, name, fs.FileMode(h.Mode))
		}
		if err != nil {
			return err
		}
	}
}

// whole compares what was written with what the archive says it has.
func whole(in io.Reader, got map[string]string) error {
	var want map[string]string
	if err := json.NewDecoder(io.LimitReader(in, maxSums)).Decode(&want); err != nil {
		return fmt.Errorf("the archive of the run does not say what it holds: %w", err)
	}
	for name, sum := range want {
		if got[name] != sum {
			return fmt.Errorf("%s of the run came damaged, or not at all", name)
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("%d files of the run came, not the %d that it has", len(got), len(want))
	}
	return nil
}

// unpackFile writes a file that is not there, and returns its sum. Who may read it is as it
// was, within what a run's files have.
func unpackFile(in io.Reader, root *os.Root, name string, mode fs.FileMode) (string, error) {
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode&0o044|0o600)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(file, sum), in)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errs.WithHint(fmt.Errorf("the archive of the run ends in the middle of %s", name), "fetch it again")
	}
	if err == nil {
		err = syncFile(file)
	}
	return hex.EncodeToString(sum.Sum(nil)), errors.Join(err, file.Close())
}
