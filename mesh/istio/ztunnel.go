package istio

import (
	"context"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/mesh"
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

// ztunnelOrigin describes the folder of ztunnel, and returns the minor version that istiod needs.
func ztunnelOrigin() (from mesh.Origin, wanted string) {
	wanted, _ = minor(components.IstioVersion)
	return mesh.Origin{Name: ztunnelName, Programs: []mesh.Program{{Name: ztunnelName, Purpose: "the proxy of each node"}},
		Hint: "--ztunnel DIR (or MESHTRIAL_ZTUNNEL) names a folder with the program ztunnel of Istio " + wanted + "; " +
			"docs/lab.md says what the folder must contain; meshtrial lab up --ambient --images official needs none (untested)"}, wanted
}

// ztunnelFolder reads a folder with the program ztunnel and, if that was not built under
// a release's name, a file VERSION. ask runs the program to get its version.
func ztunnelFolder(dir string, ask func(path string) (string, error)) (ztunnel, error) {
	from, wanted := ztunnelOrigin()
	if dir == "" {
		return ztunnel{}, errs.WithHint(errs.Usage("ztunnel is not built here: give a folder that contains it"), "%s", from.Hint)
	}
	f, err := from.Read(dir)
	if err != nil {
		return ztunnel{}, err
	}
	source := f.Programs[ztunnelName]
	says, err := ask(source.Path)
	if err != nil {
		return ztunnel{}, err
	}
	version, err := ztunnelVersion(dir, says, f.Version)
	if err != nil {
		return ztunnel{}, err
	}
	if of, _ := minor(version); of != wanted {
		return ztunnel{}, errs.WithHint(errs.Usage("%s is from Istio %s, but istiod is %s", source.Path, version, components.IstioVersion), "%s", from.Hint)
	}
	return ztunnel{source, version}, nil
}

// ztunnelVersion returns a ztunnel's version of Istio: its own if it was built under a
// release's name, otherwise that of the file VERSION next to it.
func ztunnelVersion(dir, says, file string) (string, error) {
	switch {
	case knownMinor(says) && reTag.MatchString(says):
		return says, nil
	case knownMinor(file):
		return file, nil
	}
	return "", errs.WithHint(errs.Usage("ztunnel in %s reports version %q, and no file VERSION names a version of Istio", dir, says),
		"write the version that it was built for, such as %s, to %s", components.IstioRelease, filepath.Join(dir, "VERSION"))
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

// Environment variables of ztunnel with the addresses of its control plane and its certificate
// authority. See manifests/charts/ztunnel.
const (
	ztunnelXDS = "XDS_ADDRESS"
	ztunnelCA  = "CA_ADDRESS"
)

// connectZtunnels edits ztunnel's DaemonSet as its chart does when it is upgraded to a revision:
// new pods get their configuration from the revision's istiod, and their certificates too unless
// they have them from another authority. image "" keeps theirs. See istio.io/docs, ambient mode,
// "Upgrade with Helm".
func (r Revision) connectZtunnels(daemonSet *unstructured.Unstructured, image string) error {
	template := []string{"spec", "template"}
	path := append(slices.Clone(template), "spec", "containers")
	containers, _, err := unstructured.NestedSlice(daemonSet.Object, path...)
	if err != nil {
		return fmt.Errorf("istio: DaemonSet %s: %w", ztunnelName, err)
	}
	address, found := fmt.Sprintf("%s.%s.svc:%d", r.Deployment, Namespace, tlsPort), false
	for _, c := range containers {
		container, _ := c.(map[string]any)
		xds, ca := variable(container, ztunnelXDS), variable(container, ztunnelCA)
		if xds == nil {
			continue
		}
		if found = true; ca != nil && ca["value"] == xds["value"] {
			ca["value"] = address
		}
		xds["value"] = address
		if image != "" {
			container["image"] = image
		}
	}
	if !found {
		return errs.WithHint(errs.Usage("istio: DaemonSet %s does not say in %s which istiod its pods connect to", ztunnelName, ztunnelXDS), "install ztunnel with Istio's chart")
	}
	if err := unstructured.SetNestedSlice(daemonSet.Object, containers, path...); err != nil {
		return err
	}
	return unstructured.SetNestedField(daemonSet.Object, r.Name, append(slices.Clone(template), "metadata", "annotations", revisionLabel)...)
}

// variable returns a variable of a container's environment, or nil.
func variable(container map[string]any, name string) map[string]any {
	env, _ := container["env"].([]any)
	for _, e := range env {
		if v, ok := e.(map[string]any); ok && v["name"] == name {
			return v
		}
	}
	return nil
}
