package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/meshtrial/meshtrial/advise/advice/variables"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/lab/components/imagefile"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// istiodComponent is the name of istiod in the table of components; istiodProgram is its program
// there.
const (
	istiodComponent = "istiod"
	istiodProgram   = "pilot-discovery"
)

const (
	// istiodUsage is the usage of the flag --istiod.
	istiodUsage = "istiod binary to query for its settings: a `FILE` (pilot-discovery), oci://IMAGE to extract it from an image in a registry, or \"image\" for the image of the istiod being examined"
	// ofImage stands for the image of the istiod in question. imageScheme is the prefix of any
	// other image.
	ofImage     = "image"
	imageScheme = "oci://"
	// inImage is the path of the program in Istio's images.
	inImage = "usr/local/bin/" + istiodProgram
)

// askIstiod asks the named istiod for its settings or, if none is named, the istiod of the local
// lab, if that has this version. If there is none to ask, the returned note says why and what to
// do.
func askIstiod(ctx context.Context, named, version, image string) (*variables.Known, string, error) {
	if named != "" {
		known, err := askNamed(ctx, named, image)
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
		return nil, fmt.Sprintf("the settings of istiod %s are unknown: --istiod image extracts its binary from its image, --istiod FILE names a local one", version), nil
	}
	known, err := variables.Ask(ctx, path)
	return known, "", err
}

// askNamed asks the istiod that --istiod names. image is the image of the istiod in question, or
// "" if unknown.
func askNamed(ctx context.Context, named, image string) (known *variables.Known, err error) {
	ref, isImage := strings.CutPrefix(named, imageScheme)
	switch {
	case !isImage && named != ofImage:
		return variables.Ask(ctx, named)
	case !isImage && (image == "" || image == study.LevelDefault):
		return nil, errs.WithHint(errs.Usage("the image of the istiod being examined is unknown"),
			"name it: --istiod oci://docker.io/istio/pilot:VERSION; for a file called image, write ./image")
	case !isImage:
		ref = image
	}
	dir, err := os.MkdirTemp("", "meshtrial-image-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	program, of, err := imagefile.Take(ctx, ref, inImage, dir)
	if err != nil {
		return nil, errs.WithHint(err, "to use a binary on this machine: --istiod FILE")
	}
	if known, err = variables.Ask(ctx, program); err == nil {
		known.Source = of
	}
	return known, err
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

// imageOf returns the image of the istiod that a run measured, or "" if its trials recorded none.
func imageOf(run record.Run) string {
	for _, t := range run.Trials {
		refs := []string{t.Cell[controlplane.FactorIstiod]}
		if t.Control != nil {
			refs = append(refs, t.Control.Installed[controlplane.FactorIstiod])
		}
		for _, ref := range refs {
			if ref != "" && ref != study.LevelInstalled && ref != study.LevelDefault {
				return ref
			}
		}
	}
	return ""
}
