package mesh

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/trusted"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/components"
)

// Origin says what a mesh's installation can come from: a folder with its programs and charts, or a
// release by name. Only the folder's owner, the user and root may be able to write to the folder.
type Origin struct {
	Name     string // of the mesh, in messages
	Setting  string // its name in --mesh; the flag of this name has the folder or release
	Variable string // environment variable with the same, which the flag overrides
	Programs []Program
	Charts   []string
	Files    []File
	// Version reports whether the file VERSION names a version. Without it, any will do, and the
	// file is optional.
	Version func(string) bool
	Release *regexp.Regexp // names of releases
	// SameRelease reports whether an installed version is the release of this name.
	SameRelease func(version, name string) bool
	Hint        string // for a folder or release that is missing or wrong
}

// Program is a program of a folder. The error for a missing one states its purpose.
type Program struct {
	Name, Purpose string
	Optional      bool
}

// File is a small text file of a folder.
type File struct{ Name, Source string }

// Folder is what a folder contains.
type Folder struct {
	Programs map[string]components.Source
	Charts   []string // paths, in the order of [Origin.Charts]
	Files    map[string]string
	Version  string // of the file VERSION
	Sum      string // of all contents, in hex
	Tag      string // of images, unique to the contents
}

const versionFile = "VERSION"

var versionText = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,80}$`)

// Limits on a text and a chart of a folder.
const (
	maxText       = 1 << 20
	maxChartFiles = 2000
	maxChartBytes = 32 << 20
)

// IsFolder reports whether a source is a folder rather than the name of a release.
func (s Origin) IsFolder(from string) (bool, error) {
	if info, err := os.Stat(from); err == nil && info.IsDir() {
		return true, nil
	}
	if !s.Release.MatchString(from) {
		return false, errs.WithHint(errs.Usage("%s's source %s is neither a folder nor the name of a release", s.Name, from), "%s", s.Hint)
	}
	return false, nil
}

// IsFrom reports whether an installed version comes from a source.
func (s Origin) IsFrom(version, from string) (bool, error) {
	folder, err := s.IsFolder(from)
	if err != nil || !folder {
		return err == nil && s.SameRelease(version, from), err
	}
	f, err := s.Read(from)
	return err == nil && f.Tag == version, err
}

// Read reads a folder. A single error names everything that is missing.
func (s Origin) Read(dir string) (Folder, error) {
	f := Folder{Programs: map[string]components.Source{}, Files: map[string]string{}}
	switch info, err := os.Stat(filepath.Clean(dir)); {
	case err != nil:
		return f, errs.WithHint(errs.Usage("%s's folder: %w", s.Name, err), "%s", s.Hint)
	case !info.IsDir():
		return f, errs.WithHint(errs.Usage("%s is not a folder", dir), "give its folder: %s", filepath.Dir(filepath.Clean(dir)))
	}
	owner, err := trusted.Owner(dir)
	if err == nil {
		dir, err = trusted.Folder(dir, owner)
	}
	if err != nil {
		return f, fmt.Errorf("%s's folder: %w", s.Name, err)
	}
	var lacks []string
	all := sha256.New()
	for _, p := range s.Programs {
		path, err := trusted.Folder(filepath.Join(dir, p.Name), owner)
		if err != nil {
			return f, fmt.Errorf("%s's folder: %w", s.Name, err)
		}
		switch made, err := components.OpenSource(path); {
		case err == nil:
			f.Programs[p.Name] = made
			fmt.Fprintf(all, "%s %s\n", p.Name, made.Sum)
		case !errors.Is(err, fs.ErrNotExist):
			return f, errs.WithHint(err, "%s", s.Hint)
		case !p.Optional:
			lacks = append(lacks, fmt.Sprintf("the program %s (%s)", p.Name, p.Purpose))
		}
	}
	for _, name := range s.Charts {
		path := components.FindChart(dir, name)
		if path == "" {
			lacks = append(lacks, fmt.Sprintf("the chart %s (charts/%s or charts/%s-VERSION.tgz)", name, name, name))
			continue
		}
		if path, err = trusted.Tree(path, owner); err != nil {
			return f, fmt.Errorf("%s's charts: %w", s.Name, err)
		}
		sum, err := sumTree(path, owner)
		if err != nil {
			return f, fmt.Errorf("%s's charts: %w", s.Name, err)
		}
		f.Charts = append(f.Charts, path)
		fmt.Fprintf(all, "%s %x\n", name, sum)
	}
	for _, text := range append([]File{{versionFile, "such as 1.2.3"}}, s.Files...) {
		switch data, err := readText(filepath.Join(dir, text.Name), owner); {
		case err == nil:
			f.Files[text.Name] = data
			fmt.Fprintf(all, "%s %x\n", text.Name, sha256.Sum256([]byte(data)))
		case !errors.Is(err, fs.ErrNotExist):
			return f, fmt.Errorf("%s's folder: %w", s.Name, err)
		case text.Name != versionFile || s.Version != nil:
			lacks = append(lacks, fmt.Sprintf("the file %s (%s)", text.Name, text.Source))
		}
	}
	if len(lacks) > 0 {
		return f, errs.WithHint(errs.Usage("%s's folder %s lacks:\n  %s", s.Name, dir, strings.Join(lacks, "\n  ")), "%s", s.Hint)
	}
	if text, ok := f.Files[versionFile]; ok {
		f.Version = strings.TrimSpace(text)
		if !versionText.MatchString(f.Version) || s.Version != nil && !s.Version(f.Version) {
			return f, errs.WithHint(errs.Usage("%s does not contain a version of %s", filepath.Join(dir, versionFile), s.Name),
				"such as 1.2.3, of letters, digits, dots, dashes and underscores")
		}
	}
	f.Sum = hex.EncodeToString(all.Sum(nil))
	f.Tag = cmp.Or(f.Version, "built") + "-" + f.Sum[:12]
	return f, nil
}

func readText(path string, owner uint32) (string, error) {
	path, err := trusted.Folder(path, owner)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxText {
		return "", errs.Usage("%s is not a file of at most %d KiB", path, maxText>>10)
	}
	text, err := os.ReadFile(path)
	return string(text), err
}

// sumTree returns a digest of the names and contents of the files of a chart. Links may lead out of
// the chart, but only to files that nobody else may write.
func sumTree(dir string, owner uint32) ([]byte, error) {
	all := sha256.New()
	files, size := 0, int64(0)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if d.Type()&fs.ModeSymlink != 0 {
			if _, err := trusted.Folder(path, owner); err != nil {
				return err
			}
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return errs.Usage("%s is not a regular file", path)
		}
		if files, size = files+1, size+info.Size(); files > maxChartFiles || size > maxChartBytes {
			return errs.Usage("%s has more than %d files or %d MiB", dir, maxChartFiles, maxChartBytes>>20)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		fmt.Fprintf(all, "%q %x\n", name, sha256.Sum256(text))
		return err
	})
	return all.Sum(nil), err
}

// Flags returns the flags that name the source.
func (s Origin) Flags() []Flag {
	return []Flag{
		{Name: s.Setting, Commands: LabUp, Adds: true, Usage: "also install " + s.Name + ", from a `DIR` with its programs and charts, or from a release by name (default $" + s.Variable + ")"},
		{Name: s.Setting, Commands: Run, Usage: "source of " + s.Name + " if a lab with it must be started: a folder or a release (default $" + s.Variable + ")"},
	}
}

// Resolve is [Kit.Resolve] for the source. Without a flag it is that of the environment, or else
// fallback.
func (s Origin) Resolve(installed bool, set Settings, fallback string) (Settings, error) {
	if !installed {
		if set[s.Setting] != nil {
			return nil, s.NotInstalled(s.Setting)
		}
		return set, nil
	}
	from := cmp.Or(set.Get(s.Setting), os.Getenv(s.Variable), fallback)
	if from == "" {
		return nil, errs.WithHint(errs.Usage("%s is not built here: give a source", s.Name), "%s", s.Hint)
	}
	return set.With(s.Setting, from), nil
}

// NotInstalled returns the error for a flag of a mesh that the lab does not get.
func (s Origin) NotInstalled(flag string) error {
	return errs.WithHint(errs.Usage("--%s requires %s, but --mesh does not include it", flag, s.Name), "--mesh istio,%s installs both", s.Setting)
}

// Fits is [Kit.Fits] for a plan that uses the mesh: the source must be there, and the running lab's
// if it names one.
func (s Origin) Fits(set Settings, has map[string]string) error {
	if set.Get(s.Setting) == "" && has != nil {
		return nil
	}
	set, err := s.Resolve(true, set, "")
	if err != nil {
		return err
	}
	from := set.Get(s.Setting)
	same, err := s.IsFrom(has[lab.Status], from)
	if err != nil || has == nil || same {
		return err
	}
	return OtherThan(s.Name, has[lab.Status], "--"+s.Setting+" "+from)
}

// Rendered is an installation whose charts are rendered.
type Rendered struct {
	lab.Installation
	Images []components.Image
	Facts  map[string]string
}

// Supply returns what a lab gets of a mesh. Its charts are rendered once: an installation's keys
// are not stored.
func (s Origin) Supply(from string, render func(context.Context, *components.Builder) (*Rendered, error)) (lab.Supply, error) {
	var made *Rendered
	_, err := s.IsFolder(from)
	return lab.Supply{Mesh: s.Setting,
		Images: func(ctx context.Context, b *components.Builder) (_ []components.Image, _ map[string]string, err error) {
			if made, err = render(ctx, b); err != nil {
				return nil, nil, err
			}
			return made.Images, made.Facts, nil
		},
		Install: func(context.Context, *components.Builder) (lab.Installation, error) { return made.Installation, nil }}, err
}
