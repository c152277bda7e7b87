// Package debugfile finds the debug files of binaries by build ID, and uses
// them to name the frames of profiles.
//
// A [Finder] searches the files and directories that the user names, and then
// the locations where distributions and debuginfod's client keep such files. It
// uses a file only if its build ID matches that of the binary that ran: names
// from another build are worse than none.
package debugfile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/observe/profile"
)

// maxFiles limits the number of files examined per directory.
const maxFiles = 10_000

// Finder finds debug files. Make one with [New].
type Finder struct {
	given map[string][]string // files that the user named, by build id
	trees []string            // directories with files by build id
}

// ByID returns the path of a debug file in a directory such as /usr/lib/debug,
// in the layout of distributions: .build-id/ab/cdef.debug. It returns "" for an
// invalid ID.
func ByID(dir, id string) string {
	if !reID.MatchString(id) {
		return ""
	}
	return filepath.Join(dir, ".build-id", id[:2], id[2:]+".debug")
}

// reID matches a build ID. Profiles are untrusted, and IDs become paths.
var reID = regexp.MustCompile(`^[0-9a-f]{8,128}$`)

// New reads the paths that the user named. Each is a debug file, or a directory
// with debug files, either flat or by build ID. Anything else is a usage error.
func New(paths []string) (*Finder, error) {
	f := &Finder{given: map[string][]string{}, trees: []string{"/usr/lib/debug"}}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err == nil && info.IsDir() {
			err = f.addDirectory(filepath.Clean(path))
		} else if err == nil {
			err = f.addFile(path)
		}
		if err != nil {
			return nil, errs.WithHint(errs.WithCode(fmt.Errorf("debug files: %w", err), errs.CodeUsage),
				"a debug file is a binary with its symbols, or what objcopy --only-keep-debug leaves of one")
		}
	}
	return f, nil
}

// addDirectory adds the binaries in a directory.
func (f *Finder) addDirectory(dir string) error {
	f.trees = append(f.trees, dir)
	if filepath.Base(dir) == ".build-id" {
		f.trees = append(f.trees, filepath.Dir(dir))
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries[:min(len(entries), maxFiles)] {
		path := filepath.Join(dir, e.Name())
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			_ = f.addFile(path) // other files are ignored
		}
	}
	return nil
}

func (f *Finder) addFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	e, err := profile.ReadELF(file)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if e.BuildID == "" {
		return fmt.Errorf("%s has no build id, which says whose names it has", path)
	}
	f.given[e.BuildID] = append(f.given[e.BuildID], path)
	return nil
}

// candidates returns files that may have the symbols of a build.
func (f *Finder) candidates(id string) []string {
	out := slices.Clone(f.given[id])
	for _, dir := range f.trees {
		out = append(out, ByID(dir, id))
	}
	user, _ := os.UserCacheDir()
	cache := cmp.Or(os.Getenv("DEBUGINFOD_CACHE_PATH"), filepath.Join(user, "debuginfod_client"))
	return append(out, filepath.Join(cache, id, "debuginfo"))
}

// worthNoting is the share of the weight from which a binary without names
// deserves a note.
const worthNoting = 0.02

// Name names those frames of a profile that have an offset but no name, as far
// as possible, and notes in the profile what it did. Call
// [profile.Profile.Judge] before it, and [profile.Profile.Distrust] after it.
func (f *Finder) Name(p *profile.Profile) {
	note := func(format string, args ...any) { p.Notes = append(p.Notes, fmt.Sprintf(format, args...)) }
	for _, b := range p.Unnamed() {
		heavy := float64(b.Weight) >= worthNoting*float64(p.Total())
		if !reID.MatchString(b.BuildID) {
			if heavy && len(f.given) > 0 {
				note("%s: the profile does not say which build of it ran, so that no debug file is taken for it", b.Path)
			}
			continue
		}
		err := fs.ErrNotExist
		for _, path := range f.candidates(b.BuildID) {
			tried := name(p, b.Path, path)
			if tried == nil {
				note("%s is named by %s, of the same build id %s", b.Path, path, b.BuildID)
				err = nil
				break
			}
			if !errors.Is(tried, fs.ErrNotExist) {
				err = fmt.Errorf("%s: %w", path, tried)
			}
		}
		switch {
		case err == nil || !heavy:
		case !errors.Is(err, fs.ErrNotExist):
			note("%v", err)
		case len(f.given) > 0:
			note("none of the debug files is of %s, which has build id %s", b.Path, b.BuildID)
		}
	}
}

func name(p *profile.Profile, binary, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return p.Symbolise(binary, file)
}
