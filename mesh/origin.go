package mesh

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab/components"
)

// Origin says what a mesh's installation can come from: a folder with its programs and charts, or a
// release by name.
type Origin struct {
	Name     string // of the mesh
	Programs []Program
	Charts   []string
	Release  *regexp.Regexp // names of releases
	Hint     string         // for what is neither
}

// Program is a program of a folder. The error for a missing one states its purpose.
type Program struct {
	Name, Purpose string
	Optional      bool
}

// Folder is what a folder contains.
type Folder struct {
	Programs map[string]components.Source
	Charts   []string // paths, in the order of [Origin.Charts]
	Tag      string   // of images, unique to the programs
}

var versionText = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,80}$`)

// IsFolder reports whether a source is a folder rather than the name of a release.
func (s Origin) IsFolder(from string) (bool, error) {
	if _, err := os.Stat(from); err == nil {
		return true, nil
	}
	if !s.Release.MatchString(from) {
		return false, errs.WithHint(errs.Usage("%s's source %s is neither a folder nor the name of a release", s.Name, from), "%s", s.Hint)
	}
	return false, nil
}

// Read reads a folder, and its file VERSION if it has one. A single error names everything that is
// missing.
func (s Origin) Read(dir string) (Folder, error) {
	f := Folder{Programs: map[string]components.Source{}}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return f, err
	}
	var lacks []string
	all := sha256.New()
	for _, p := range s.Programs {
		switch made, err := components.OpenSource(filepath.Join(dir, p.Name)); {
		case err == nil:
			f.Programs[p.Name] = made
			fmt.Fprintf(all, "%s %s\n", p.Name, strings.TrimPrefix(made.Sum, "sha256:"))
		case !errors.Is(err, fs.ErrNotExist):
			return f, err
		case !p.Optional:
			lacks = append(lacks, fmt.Sprintf("the program %s (%s)", p.Name, p.Purpose))
		}
	}
	for _, name := range s.Charts {
		path := components.FindChart(dir, name)
		if f.Charts = append(f.Charts, path); path == "" {
			lacks = append(lacks, fmt.Sprintf("the chart %s (charts/%s or charts/%s-VERSION.tgz)", name, name, name))
		}
	}
	if len(lacks) > 0 {
		return f, errs.WithHint(errs.Usage("%s's folder %s lacks:\n  %s", s.Name, dir, strings.Join(lacks, "\n  ")),
			"put what belongs to one version of %s there, with the folder charts of its source or its published charts", s.Name)
	}
	version := "built"
	if text, err := os.ReadFile(filepath.Join(dir, "VERSION")); err == nil {
		if version = strings.TrimSpace(string(text)); !versionText.MatchString(version) {
			return f, errs.Usage("%s holds an invalid version: use at most 81 letters, digits, dots, dashes and underscores", filepath.Join(dir, "VERSION"))
		}
	}
	f.Tag = fmt.Sprintf("%s-%x", version, all.Sum(nil)[:6])
	return f, nil
}
