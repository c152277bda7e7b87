package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/observe/procfs"
)

// imageStore is containerd's root, kept between labs so that images are imported only
// once.
//
// A lab always starts from the store as it was after the last import: containerd's
// databases are saved, and a lab's additions are dropped before the next lab starts. A
// store that differs from its saved state, or that was saved before the machine last
// started, is discarded and refilled: what is imported is not synced to disk.
type imageStore struct{ dir string }

// saved is the content of saved/contents.json, which describes the store.
type saved struct {
	Images      map[string]string `json:"images"`      // reference -> digest
	Snapshots   []string          `json:"snapshots"`   // folders of unpacked layers
	Blobs       []string          `json:"blobs"`       // manifests, configurations and layers
	Fingerprint string            `json:"fingerprint"` // of all those, and of the databases
	Boot        string            `json:"boot"`        // ID of the machine's boot in which it was saved
}

func (s imageStore) root(parts ...string) string {
	return filepath.Join(append([]string{s.dir, "root"}, parts...)...)
}
func (s imageStore) contents() string { return filepath.Join(s.dir, "saved", "contents.json") }
func (s imageStore) blobs() string {
	return s.root("io.containerd.content.v1.content", "blobs", "sha256")
}
func (s imageStore) snapshots() string {
	return s.root("io.containerd.snapshotter.v1.overlayfs", "snapshots")
}

// databases maps containerd's databases to their saved copies.
func (s imageStore) databases() map[string]string {
	return map[string]string{
		s.root("io.containerd.metadata.v1.bolt", "meta.db"):             filepath.Join(s.dir, "saved", "meta.db"),
		s.root("io.containerd.snapshotter.v1.overlayfs", "metadata.db"): filepath.Join(s.dir, "saved", "snapshots.db"),
	}
}

// nodes returns the folder of the stores of a lab's nodes; node returns one of them.
func (s imageStore) nodes(lab string) string { return filepath.Join(s.dir, "nodes", lab) }
func (s imageStore) node(lab, name string) imageStore {
	return imageStore{filepath.Join(s.nodes(lab), name)}
}

// clone makes a node's store with the contents of this one, by links: blobs are the
// same files, unpacked layers the same folders. Both are only read; what the node's
// containerd adds or removes is in its own folders.
func (s imageStore) clone(to imageStore) error {
	if err := os.RemoveAll(to.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(to.root(), 0o711); err != nil {
		return err
	}
	for _, folder := range []struct {
		from, to string
		link     func(from, to string) error
	}{{s.blobs(), to.blobs(), os.Link}, {s.snapshots(), to.snapshots(), os.Symlink}} {
		names, err := list(folder.from)
		if errors.Is(err, fs.ErrNotExist) {
			continue // nothing was imported: every image is pulled
		}
		if err != nil {
			return err
		}
		if err := os.MkdirAll(folder.to, 0o700); err != nil {
			return err
		}
		for _, name := range names {
			if err := folder.link(filepath.Join(folder.from, name), filepath.Join(folder.to, name)); err != nil {
				return err
			}
		}
	}
	for live, saved := range s.databases() {
		target := to.root() + strings.TrimPrefix(live, s.root())
		if err := os.MkdirAll(filepath.Dir(target), 0o711); err != nil {
			return err
		}
		if err := copyFile(saved, target); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// lockImageStore finds a store below the cache that no other lab uses.
func lockImageStore(cache string) (imageStore, *os.File, error) {
	for n := range 100 {
		dir := filepath.Join(cache, "containerd", strconv.Itoa(n))
		lock, err := lockFile(filepath.Join(dir, "lock"))
		if errors.Is(err, errLocked) {
			continue
		}
		return imageStore{dir}, lock, err
	}
	return imageStore{}, nil, fmt.Errorf("all image stores below %s are in use", cache)
}

// restore resets the store to its saved state and returns its images. A store that
// cannot be reset is emptied; why says what was wrong with it.
func (s imageStore) restore() (images map[string]string, why error, err error) {
	state, why := s.check()
	if why == nil {
		why = s.reset(state)
	}
	if why == nil {
		return state.Images, nil, nil
	}
	return map[string]string{}, why, s.wipe()
}

// errStoreEmpty reports that nothing has been saved yet.
var errStoreEmpty = errors.New("the image store is empty")

// check verifies that everything saved still exists unchanged. The fingerprint covers
// names, sizes and modes of files, not their contents.
func (s imageStore) check() (*saved, error) {
	data, err := os.ReadFile(s.contents())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errStoreEmpty
	}
	if err != nil {
		return nil, err
	}
	state := &saved{}
	if err := json.Unmarshal(data, state); err != nil {
		return nil, err
	}
	if boot, err := procfs.BootID(); err != nil || boot != state.Boot {
		return nil, errors.Join(errors.New("the machine has started again since"), err)
	}
	print, err := s.fingerprint(state)
	if err != nil {
		return nil, err
	}
	if print != state.Fingerprint {
		return nil, errors.New("the image store was modified")
	}
	return state, nil
}

// reset drops what labs added since the store was saved.
func (s imageStore) reset(state *saved) error {
	err := errors.Join(removeOthers(s.snapshots(), state.Snapshots), removeOthers(s.blobs(), state.Blobs))
	for live, copied := range s.databases() {
		err = errors.Join(err, copyFile(copied, live))
	}
	return err
}

// removeOthers removes everything from a folder except the named entries.
func removeOthers(dir string, names []string) error {
	have, err := list(dir)
	if err != nil {
		return err
	}
	for _, name := range have {
		if !slices.Contains(names, name) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, name)))
		}
	}
	return err
}

// list returns the names of a folder's entries.
func list(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, nil
}

// save records the store's current state as the state to start from. containerd must
// not be running.
func (s imageStore) save(images map[string]string) error {
	if err := os.MkdirAll(filepath.Join(s.dir, "saved"), 0o700); err != nil {
		return err
	}
	// Without contents.json the store counts as empty, so a crash from here on costs an
	// import but never leaves a wrong store.
	if err := os.Remove(s.contents()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for live, copied := range s.databases() {
		if err := copyFile(live, copied); err != nil {
			return err
		}
	}
	state := &saved{Images: images}
	var err error
	if state.Boot, err = procfs.BootID(); err != nil {
		return err
	}
	if state.Snapshots, err = list(s.snapshots()); err != nil {
		return err
	}
	if state.Blobs, err = list(s.blobs()); err != nil {
		return err
	}
	if state.Fingerprint, err = s.fingerprint(state); err != nil {
		return err
	}
	return writeJSON(s.contents(), state)
}

// wipe empties the store.
func (s imageStore) wipe() error {
	err := errors.Join(os.RemoveAll(filepath.Join(s.dir, "saved")), os.RemoveAll(s.root()))
	if err != nil {
		return fmt.Errorf("empty the image store: %w", err)
	}
	return os.MkdirAll(s.root(), 0o711)
}

// fingerprint hashes the saved databases, and the names, modes and sizes of blobs and
// of snapshots' files.
func (s imageStore) fingerprint(state *saved) (string, error) {
	sum := sha256.New()
	for _, live := range slices.Sorted(maps.Keys(s.databases())) {
		data, err := os.ReadFile(s.databases()[live])
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%x\n", sha256.Sum256(data))
	}
	note := func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		size := info.Size()
		if entry.IsDir() {
			size = 0
		}
		fmt.Fprintf(sum, "%q %o %d\n", filepath.Base(path), info.Mode(), size)
		return nil
	}
	for _, name := range state.Blobs {
		info, err := os.Lstat(filepath.Join(s.blobs(), name))
		if err := note(name, fs.FileInfoToDirEntry(info), err); err != nil {
			return "", err
		}
	}
	for _, name := range state.Snapshots {
		if err := filepath.WalkDir(filepath.Join(s.snapshots(), name), note); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// missing lists the images that a store lacks.
func missing(want []components.Image, have map[string]string) []components.Image {
	return slices.DeleteFunc(slices.Clone(want), func(i components.Image) bool { return have[i.Ref] == i.Digest && i.Digest != "" })
}

// fill imports the missing images with a containerd without CRI and saves the result. A
// store that cannot be filled is emptied and filled once more.
func (n *node) fill(ctx context.Context) error {
	store := imageStore{imageDir}
	have, why, err := store.restore()
	if err != nil {
		return err
	}
	if why != nil && !errors.Is(why, errStoreEmpty) {
		n.say("rebuilding the image store: %v", why)
	}
	for attempt := 0; ; attempt++ {
		lacks := missing(n.spec.Images, have)
		if len(lacks) == 0 {
			return nil
		}
		err := n.importAll(ctx, lacks)
		if err == nil {
			have = maps.Clone(have)
			for _, image := range lacks {
				have[image.Ref] = image.Digest
			}
			return store.save(have)
		}
		if ctx.Err() != nil || attempt > 0 {
			return fmt.Errorf("import images: %w", err)
		}
		n.say("image store damaged, rebuilding it: %v", err)
		if err := store.wipe(); err != nil {
			return err
		}
		have = map[string]string{}
	}
}
