// Package studies embeds the study files that come with meshtrial, so that `meshtrial run quick`
// works anywhere. Each is an ordinary study file and a good starting point for your own.
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

// Scenarios is the folder of the resilience studies. Study names are unique across folders.
const Scenarios = "scenarios"

// Names returns the names of all studies, sorted, with scenarios last.
func Names() []string { return append(namesIn("."), ScenarioNames()...) }

// ScenarioNames returns the names of the studies in the folder Scenarios.
func ScenarioNames() []string { return namesIn(Scenarios) }

func namesIn(folder string) []string {
	entries, err := fs.ReadDir(files, folder)
	if err != nil { // the file system is embedded
		panic(err)
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".yaml"); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names) // files are sorted by name with .yaml
	return names
}

// Read returns a study file by name.
func Read(name string) ([]byte, error) {
	data, err := files.ReadFile(name + ".yaml")
	if err != nil && !strings.Contains(name, "/") {
		data, err = files.ReadFile(Scenarios + "/" + name + ".yaml")
	}
	if err != nil || strings.Contains(name, "/") {
		return nil, errs.WithHint(errs.Usage("unknown study %q", name), "%s", Hint(name))
	}
	return data, nil
}

// Takes describes the argument STUDY on the command line.
const Takes = "STUDY is the name of a shipped study, such as quick (`meshtrial study list` names all), the path of a study file, or - for standard input"

// Hint returns the hint for an unknown study name: the nearest name, if any is close, and the other
// accepted forms.
func Hint(name string) string {
	if near := errs.Nearest(name, Names()); near != "" {
		return near + " " + Takes
	}
	return Takes
}
