package linkerd

import (
	"strings"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/study"
)

// program is a program of Linkerd's images.
type program struct {
	mesh.Program
	in         string // its place in the image
	controller bool   // in the control plane's image, otherwise in the sidecar's
}

// programs are the programs of Linkerd's two images, by their names in Linkerd's own
// image files.
var programs = []program{
	{mesh.Program{Name: "controller", Purpose: "destination, identity and proxy injector of the control plane"}, "controller", true},
	{mesh.Program{Name: "linkerd-policy-controller", Purpose: "policies of the control plane"}, "linkerd-policy-controller", true},
	{mesh.Program{Name: "linkerd2-proxy", Purpose: "the proxy of a sidecar"}, "usr/lib/linkerd/linkerd2-proxy", false},
	{mesh.Program{Name: "linkerd2-proxy-identity", Purpose: "makes a sidecar's key and starts its proxy"}, "usr/lib/linkerd/linkerd2-proxy-identity", false},
	{mesh.Program{Name: "linkerd2-proxy-init", Purpose: "redirects a pod's traffic to its sidecar"}, "usr/lib/linkerd/linkerd2-proxy-init", false},
	{mesh.Program{Name: "linkerd-await", Purpose: "holds an application back until its sidecar is ready", Optional: true}, "usr/lib/linkerd/linkerd-await", false},
	{mesh.Program{Name: "linkerd2-network-validator", Purpose: "checks a pod's redirection", Optional: true}, "usr/lib/linkerd/linkerd2-network-validator", false},
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

var sources = mesh.Origin{Name: "Linkerd", Setting: study.MeshLinkerd, Variable: "MESHTRIAL_LINKERD", Programs: programsOf(), Charts: []string{crdsChart, controlChart},
	Release: release, SameRelease: sameRelease, Hint: "--linkerd DIR names a folder with its programs and charts, --linkerd edge a release to pull; so does MESHTRIAL_LINKERD in the environment"}

// sameRelease accepts any release of a channel, without looking up the newest.
func sameRelease(version, name string) bool {
	channel := name == edge || name == "stable"
	return version == name || channel && release.MatchString(version) && strings.HasPrefix(version, name+"-")
}

func programsOf() (out []mesh.Program) {
	for _, p := range programs {
		out = append(out, p.Program)
	}
	return out
}

// readFolder reads a folder with Linkerd's programs and charts.
func readFolder(dir string) (*source, error) {
	f, err := sources.Read(dir)
	if err != nil {
		return nil, err
	}
	return &source{tag: f.Tag, crds: f.Charts[0], control: f.Charts[1], programs: f.Programs}, nil
}
