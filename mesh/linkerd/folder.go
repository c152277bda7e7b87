package linkerd

import (
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
	"github.com/meshtrial/meshtrial/lab/components"
)

// program is a program of Linkerd's images. The error for a missing one states its
// purpose.
type program struct {
	name, in, purpose string // in: its place in the image
	controller        bool   // in the control plane's image, otherwise in the sidecar's
	optional          bool
}

// programs are the programs of Linkerd's two images, by their names in Linkerd's own
// image files.
var programs = []program{
	{name: "controller", in: "controller", purpose: "destination, identity and proxy injector of the control plane", controller: true},
	{name: "linkerd-policy-controller", in: "linkerd-policy-controller", purpose: "policies of the control plane", controller: true},
	{name: "linkerd2-proxy", in: "usr/lib/linkerd/linkerd2-proxy", purpose: "the proxy of a sidecar"},
	{name: "linkerd2-proxy-identity", in: "usr/lib/linkerd/linkerd2-proxy-identity", purpose: "makes a sidecar's key and starts its proxy"},
	{name: "linkerd2-proxy-init", in: "usr/lib/linkerd/linkerd2-proxy-init", purpose: "redirects a pod's traffic to its sidecar"},
	{name: "linkerd-await", in: "usr/lib/linkerd/linkerd-await", purpose: "holds an application back until its sidecar is ready", optional: true},
	{name: "linkerd2-network-validator", in: "usr/lib/linkerd/linkerd2-network-validator", purpose: "checks a pod's redirection", optional: true},
}

// Charts of a folder or a release.
const (
	crdsChart    = "linkerd-crds"
	controlChart = "linkerd-control-plane"
)

// Users in Linkerd's images; its chart overrides them if necessary.
const (
	controllerUser = "65534"
	proxyUser      = "2102"
)

var versionText = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,80}$`)

// readFolder reads a folder with Linkerd's programs, its charts, and optionally a file
// VERSION. A single error names everything that is missing.
func readFolder(dir string) (*source, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s := &source{programs: map[string]components.Source{}}
	var lacks []string
	all := sha256.New()
	for _, p := range programs {
		at := filepath.Join(dir, p.name)
		made, err := components.OpenSource(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if !p.optional {
				lacks = append(lacks, fmt.Sprintf("the program %s (%s)", p.name, p.purpose))
			}
			continue
		case err != nil:
			return nil, err
		}
		s.programs[p.name] = made
		fmt.Fprintf(all, "%s %s\n", p.name, strings.TrimPrefix(made.Sum, "sha256:"))
	}
	for _, c := range []struct {
		name string
		path *string
	}{{crdsChart, &s.crds}, {controlChart, &s.control}} {
		if *c.path = components.FindChart(dir, c.name); *c.path == "" {
			lacks = append(lacks, fmt.Sprintf("the chart %s (charts/%s or charts/%s-VERSION.tgz)", c.name, c.name, c.name))
		}
	}
	if len(lacks) > 0 {
		return nil, errs.WithHint(errs.Usage("Linkerd's folder %s lacks:\n  %s", dir, strings.Join(lacks, "\n  ")),
			"put the programs of one version of Linkerd there, with the folder charts of its source or its published charts beside them")
	}
	release := "built"
	if text, err := os.ReadFile(filepath.Join(dir, "VERSION")); err == nil {
		if release = strings.TrimSpace(string(text)); !versionText.MatchString(release) {
			return nil, errs.Usage("%s holds an invalid version: use at most 81 letters, digits, dots, dashes and underscores", filepath.Join(dir, "VERSION"))
		}
	}
	s.tag = release + "-" + hex.EncodeToString(all.Sum(nil)[:6])
	return s, nil
}
