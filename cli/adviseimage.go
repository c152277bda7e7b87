package cli

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/meshtrial/meshtrial/advise/advice/variables"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab/components/imagefile"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

const (
	// istiodUsage is what --istiod takes.
	istiodUsage = "the program that says which settings istiod has: a `FILE` (pilot-discovery); oci://IMAGE, to take it out of an image in its registry; or the word image, for the image of the istiod in question"
	// ofImage names the image of the istiod in question; imageScheme begins the name of
	// another.
	ofImage     = "image"
	imageScheme = "oci://"
	// inImage is the program's path in Istio's images.
	inImage = "usr/local/bin/" + istiodProgram
)

// askNamed asks the istiod that --istiod names. image is that of the istiod in question; "" if it
// is unknown.
func askNamed(ctx context.Context, named, image string) (known *variables.Known, err error) {
	ref, isImage := strings.CutPrefix(named, imageScheme)
	switch {
	case !isImage && named != ofImage:
		return variables.Ask(ctx, named)
	case !isImage && (image == "" || image == study.LevelDefault):
		return nil, errs.WithHint(errs.Usage("the image of the istiod in question is unknown"), "name it: --istiod oci://docker.io/istio/pilot:VERSION; a file that is called image is ./image")
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
		return nil, errs.WithHint(err, "a program that is on this machine can be named as a file: --istiod FILE")
	}
	if known, err = variables.Ask(ctx, program); err == nil {
		known.Source = of
	}
	return known, err
}

// imageOf is the image of the istiod that a run measured; "" if its trials recorded none.
func imageOf(run record.Run) string {
	for _, t := range run.Trials {
		for _, levels := range []record.Cell{t.Cell, asInstalled(t)} {
			if ref := levels[study.FactorIstiod]; ref != "" && ref != study.LevelInstalled && ref != study.LevelDefault {
				return ref
			}
		}
	}
	return ""
}

func asInstalled(t record.Trial) record.Cell {
	if t.Control == nil {
		return nil
	}
	return t.Control.Installed
}
