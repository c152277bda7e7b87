package istio

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/trusted"
	"github.com/meshtrial/meshtrial/lab/components"
)

// ztunnel is an ambient mesh's proxy from the user's folder.
type ztunnel struct {
	components.Source
	version string // of Istio
}

// ref returns the name of the image assembled from it, which is unique per build.
func (z ztunnel) ref() string {
	sum, _ := hex.DecodeString(strings.TrimPrefix(z.Sum, "sha256:"))
	return fmt.Sprintf("%s/ztunnel:%s-%x", components.IstioHub, z.version, sum[:6])
}

const ztunnelHint = "--ztunnel DIR (or MESHTRIAL_ZTUNNEL) names a folder with the program ztunnel of Istio %s; " +
	"docs/lab.md says what the folder must contain; meshtrial lab up --ambient --images official needs none (untested)"

// ztunnelFolder reads a folder with the program ztunnel and, if that was not built under
// a release's name, a file VERSION. ask runs the program to get its version.
func ztunnelFolder(dir string, ask func(path string) (string, error)) (ztunnel, error) {
	wanted, _ := minor(components.IstioVersion)
	if dir == "" {
		return ztunnel{}, errs.WithHint(errs.Usage("ztunnel is not built here: give a folder that contains it"), ztunnelHint, wanted)
	}
	if info, err := os.Stat(filepath.Clean(dir)); err == nil && !info.IsDir() {
		return ztunnel{}, errs.WithHint(errs.Usage("%s is not a folder", dir), "give its folder: --ztunnel %s", filepath.Dir(filepath.Clean(dir)))
	}
	path := filepath.Join(dir, "ztunnel")
	switch info, err := os.Stat(path); {
	case err != nil:
		return ztunnel{}, errs.WithHint(errs.Usage("the folder %s has no program ztunnel", dir), ztunnelHint, wanted)
	case !info.Mode().IsRegular():
		return ztunnel{}, errs.WithHint(errs.Usage("%s is not a file", path), ztunnelHint, wanted)
	}
	path, err := trustedZtunnel(dir, path)
	if err != nil {
		return ztunnel{}, err
	}
	source, err := components.OpenSource(path)
	if err != nil {
		return ztunnel{}, err
	}
	says, err := ask(path)
	if err != nil {
		return ztunnel{}, err
	}
	version, err := ztunnelVersion(dir, says)
	if err != nil {
		return ztunnel{}, err
	}
	if of, _ := minor(version); of != wanted {
		return ztunnel{}, errs.WithHint(errs.Usage("%s is from Istio %s, but istiod is %s", path, version, components.IstioVersion), ztunnelHint, wanted)
	}
	return ztunnel{source, version}, nil
}

// trustedZtunnel rejects a program that anyone other than the folder's owner, the user
// and root may write or replace, because it is run here. It resolves links.
func trustedZtunnel(dir, path string) (string, error) {
	owner, err := trusted.Owner(dir)
	if err == nil {
		_, err = trusted.Folder(dir, owner)
	}
	if err == nil {
		path, err = trusted.Folder(path, owner)
	}
	if err != nil {
		return "", fmt.Errorf("folder of ztunnel: %w", err)
	}
	return path, nil
}

// ztunnelVersion returns a ztunnel's version of Istio: its own if it was built under a
// release's name, otherwise that of the file VERSION next to it.
func ztunnelVersion(dir, says string) (string, error) {
	lacks := "which is not a version of Istio"
	if _, ok := minor(says); ok {
		if reTag.MatchString(says) {
			return says, nil
		}
		lacks = "which cannot be an image's tag"
	}
	file := filepath.Join(dir, "VERSION")
	text, err := os.ReadFile(file)
	if err != nil {
		return "", errs.WithHint(errs.Usage("ztunnel in %s reports version %q, %s", dir, says, lacks),
			"write the version that it was built for, such as %s, to %s", components.IstioRelease, file)
	}
	version := strings.TrimSpace(string(text))
	if _, ok := minor(version); !ok || !reTag.MatchString(version) {
		return "", errs.WithHint(errs.Usage("%s does not contain a version of Istio", file), "such as %s", components.IstioRelease)
	}
	return version, nil
}

var reBuild = regexp.MustCompile(`Version:"([^"]*)"`)

// ztunnelBuild gets a ztunnel's version by running it.
func ztunnelBuild(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out, err := components.Run(ctx, nil, path, "version")
	if err != nil {
		return "", errs.Usage("%s does not report its version: %v", path, err)
	}
	m := reBuild.FindSubmatch(out)
	if m == nil {
		return "", errs.Usage("%s is not ztunnel: asked for its version, it printed %.100q", path, out)
	}
	return string(m[1]), nil
}

// reTag matches valid image tags.
var reTag = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,80}$`)

// openZtunnel reads the ztunnel folder, if one is needed.
func (o *order) openZtunnel(ctx context.Context) (err error) {
	if o.ambient && !o.official {
		o.ztunnel, err = ztunnelFolder(o.ztunnelDir, func(path string) (string, error) { return ztunnelBuild(ctx, path) })
	}
	return err
}
