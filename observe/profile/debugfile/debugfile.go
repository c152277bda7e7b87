// Package debugfile finds the debug files of binaries by their build ids, and
// names the frames of profiles by them.
//
// A [Finder] looks at files and directories that the user names, and then where
// distributions and debuginfod's clients keep such files. A file is taken only
// if its build id is that of what ran: names of another build are worse than
// none.
package debugfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/observe/profile"
)

// maxFiles bounds the files of a directory that are looked at.
const maxFiles = 10_000

// Finder finds debug files. Make one with [New].
type Finder struct {
	given map[string][]string // files that the user named, by build id
	trees []string            // directories with files by build id
}

// ByID is where a debug file lies below a directory as distributions arrange
// them, such as /usr/lib/debug: .build-id/ab/cdef.debug.
func ByID(dir, id string) string {
	if len(id) < 3 {
		return ""
	}
	return filepath.Join(dir, ".build-id", id[:2], id[2:]+".debug")
}

// New looks at what the user named: each path is a debug file, or a directory
// with debug files as they are or by build id (.build-id/ab/cdef.debug). A path
// that is neither is a usage error.
func New(paths []string) (*Finder, error) {
	f := &Finder{given: map[string][]string{}}
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return nil, errs.WithCode(fmt.Errorf("debug files: %w", err), errs.CodeUsage)
		case info.IsDir():
			if err := f.addDirectory(path); err != nil {
				return nil, errs.WithCode(fmt.Errorf("debug files: %w", err), errs.CodeUsage)
			}
		default:
			id, err := buildID(path)
			if err == nil && id == "" {
				err = errors.New("it has no build id, so that nobody can tell whose names it has")
			}
			if err != nil {
				return nil, errs.WithHint(errs.Usage("debug file %s: %v", path, err), "a debug file is a binary with its symbols, or what objcopy --only-keep-debug leaves of one")
			}
			f.given[id] = append(f.given[id], path)
		}
	}
	f.trees = append(f.trees, "/usr/lib/debug")
	return f, nil
}

// addDirectory notes the binaries that lie in a directory.
func (f *Finder) addDirectory(dir string) error {
	f.trees = append(f.trees, dir)
	if filepath.Base(filepath.Clean(dir)) == ".build-id" {
		f.trees = append(f.trees, filepath.Dir(filepath.Clean(dir)))
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries[:min(len(entries), maxFiles)] {
		path := filepath.Join(dir, e.Name())
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			continue
		}
		if id, err := buildID(path); err == nil && id != "" {
			f.given[id] = append(f.given[id], path)
		}
	}
	return nil
}

// buildID reads a file's build id.
func buildID(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	e, err := profile.ReadELF(file)
	return e.BuildID, err
}

// candidates are files that may have the symbols of a build.
func (f *Finder) candidates(id string) []string {
	out := slices.Clone(f.given[id])
	for _, dir := range f.trees {
		out = append(out, ByID(dir, id))
	}
	cache := os.Getenv("DEBUGINFOD_CACHE_PATH")
	if cache == "" {
		if user, err := os.UserCacheDir(); err == nil {
			cache = filepath.Join(user, "debuginfod_client")
		}
	}
	if cache != "" {
		out = append(out, filepath.Join(cache, id, "debuginfo"))
	}
	return out
}

// Name names what it can of a profile's frames that have a place and no name,
// and notes in it what it did. [profile.Profile.Distrust] comes after.
func (f *Finder) Name(p *profile.Profile) {
	for _, b := range p.Unnamed() {
		if !plainID(b.BuildID) {
			if b.Weight > 0 && len(f.given) > 0 {
				p.Notes = append(p.Notes, fmt.Sprintf("%s: the profile does not say which build of it ran, so that no debug file is taken for it", b.Path))
			}
			continue
		}
		var tried []string
		named := false
		for _, path := range f.candidates(b.BuildID) {
			symbols, n, err := name(p, b, path)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if named = err == nil && n > 0; named {
				p.Notes = append(p.Notes, fmt.Sprintf("%s is named by %s, of the same build id %s", b.Path, path, symbols.BuildID))
				break
			}
			if err == nil {
				err = errors.New("it names nothing of what ran")
			}
			tried = append(tried, fmt.Sprintf("%s: %v", path, err))
		}
		if named || float64(b.Weight) < worthTelling*float64(p.Total()) {
			continue
		}
		p.Notes = append(p.Notes, tried...)
		if len(tried) == 0 && len(f.given) > 0 {
			p.Notes = append(p.Notes, fmt.Sprintf("none of the debug files is of %s: it has build id %s, and they have %s", b.Path, b.BuildID, f.ids()))
		}
	}
}

// worthTelling is the share of all from which a binary without names deserves
// a note.
const worthTelling = 0.02

// plainID reports whether a build id is one: it becomes part of a path.
func plainID(id string) bool {
	return len(id) >= 8 && len(id) <= 128 && strings.Trim(id, "0123456789abcdef") == ""
}

// ids are the build ids of the user's files, some of them.
func (f *Finder) ids() string {
	var ids []string
	for id := range f.given {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	if len(ids) > 3 {
		ids = append(ids[:3], "others")
	}
	return strings.Join(ids, ", ")
}

// name names the frames of a binary by the symbols of a file.
func name(p *profile.Profile, b profile.Binary, path string) (*profile.Symbols, int, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	symbols, err := profile.ReadSymbols(file)
	if err != nil {
		return nil, 0, err
	}
	if symbols.BuildID != b.BuildID {
		return nil, 0, fmt.Errorf("it has build id %s, and what ran had %s", symbols.BuildID, b.BuildID)
	}
	if b.Text == (profile.Segment{}) && symbols.Text == (profile.Segment{}) {
		return nil, 0, errors.New("neither it nor the profile says where the code lay in the binary: name the binary too")
	}
	return symbols, p.Symbolise(b.Path, symbols), nil
}
