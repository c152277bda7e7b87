// Package studies holds the study files that come with meshtrial. They are
// part of the program, so that `meshtrial run quick` works anywhere; each is
// an ordinary study file and a good start for one's own.
package studies

import (
	"embed"
	"io/fs"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
)

//go:embed *.yaml scenarios/*.yaml
var files embed.FS

// Scenarios is the folder of the studies of resilience. A name stands for one
// study, wherever it lies.
const Scenarios = "scenarios"

// Names returns the names of all studies, sorted, those of scenarios last.
func Names() []string { return append(namesIn("."), ScenarioNames()...) }

// ScenarioNames returns the names of the studies in the folder Scenarios.
func ScenarioNames() []string { return namesIn(Scenarios) }

func namesIn(folder string) []string {
	entries, err := fs.ReadDir(files, folder)
	if err != nil { // the file system is part of the program
		panic(err)
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".yaml"); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names) // the files are in the order of their names with .yaml
	return names
}

// Read returns a study file by its name.
func Read(name string) ([]byte, error) {
	data, err := files.ReadFile(name + ".yaml")
	if err != nil && !strings.Contains(name, "/") {
		data, err = files.ReadFile(Scenarios + "/" + name + ".yaml")
	}
	if err != nil || strings.Contains(name, "/") {
		return nil, errs.WithHint(errs.Usage("there is no study %q", name), "%s", Hint(name))
	}
	return data, nil
}

// Takes says what STUDY may be on the command line.
const Takes = "STUDY is the name of a shipped study, such as quick (`meshtrial study list` names all), the path of a study file, or - for standard input"

// Hint is for a name that no study has: the nearest name, if one is near, and what else
// is taken.
func Hint(name string) string {
	if hint := errs.Suggest(name, Names()); strings.HasSuffix(hint, "?") {
		return hint + " " + Takes
	}
	return Takes
}
