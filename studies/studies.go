// Package studies holds the study files that come with meshmark. They are
// part of the program, so that `meshmark run quick` works anywhere; each is
// an ordinary study file and a good start for one's own.
package studies

import (
	"embed"
	"io/fs"
	"strings"

	"github.com/meshmark/meshmark/errs"
)

//go:embed *.yaml
var files embed.FS

// Names returns the names of all studies, sorted.
func Names() []string {
	entries, err := fs.ReadDir(files, ".")
	if err != nil { // the file system is part of the program
		panic(err)
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}

// Read returns a study file by its name.
func Read(name string) ([]byte, error) {
	data, err := files.ReadFile(name + ".yaml")
	if err != nil {
		return nil, errs.WithHint(errs.Usage("there is no study %q", name),
			"studies that come with meshmark: %s; or give the path of a file", strings.Join(Names(), ", "))
	}
	return data, nil
}
