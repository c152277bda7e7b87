package cli

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/meshtrial/meshtrial/advise/advice/variables"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/record"
)

// istiodComponent is the name of istiod in the table of components; istiodProgram is its program
// there.
const (
	istiodComponent = "istiod"
	istiodProgram   = "pilot-discovery"
)

// istiodUsage is the usage of the flag --istiod.
const istiodUsage = "`FILE` with the program of istiod (pilot-discovery) to query for its settings"

// askIstiod asks the named istiod for its settings or, if none is named, the istiod of the local
// lab, if that has this version. If there is none to ask, the returned note says why and what to
// do.
func askIstiod(ctx context.Context, named, version string) (*variables.Known, string, error) {
	if named != "" {
		known, err := variables.Ask(ctx, named)
		if err != nil || version == "" || known.Version == version {
			return known, "", err
		}
		return known, fmt.Sprintf("the settings are those of istiod %s, but istiod %s was measured", known.Version,
			version), nil
	}
	if version == "" {
		return nil, "", nil
	}
	cached, path, err := cachedIstiod()
	if err != nil {
		return nil, "", err
	}
	if path == "" || cached != version {
		return nil, fmt.Sprintf("the settings of istiod %s are unknown: --istiod FILE names its program, /usr/local/bin/pilot-discovery in its image", version), nil
	}
	known, err := variables.Ask(ctx, path)
	return known, "", err
}

// cachedIstiod returns the version and the program of the istiod that local labs run. program is
// "" if istiod has not been built here.
func cachedIstiod() (version, program string, err error) {
	b, err := components.New(components.Options{})
	if err != nil {
		return "", "", err
	}
	all, err := b.Status()
	if err != nil {
		return "", "", err
	}
	for _, s := range all {
		if s.Name == istiodComponent && s.Cached {
			return s.Version, filepath.Join(s.Path, istiodProgram), nil
		}
	}
	return "", "", nil
}

// versionOf returns the version of the istiod that a run measured, or "" if there was none.
func versionOf(h record.Header) string {
	for _, c := range h.Components {
		if c.Name == istiodComponent {
			return c.Version
		}
	}
	return ""
}
