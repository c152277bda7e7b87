package app

import (
	"context"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/mesh/istio"
	"github.com/meshtrial/meshtrial/mesh/linkerd"
	"github.com/meshtrial/meshtrial/study"
)

// Variables of the environment that say where Linkerd and ztunnel come from, unless a flag does.
const (
	LinkerdVariable = "MESHTRIAL_LINKERD"
	ZtunnelVariable = "MESHTRIAL_ZTUNNEL"
)

// LabMeshes are the meshes of a local lab, and how they are installed.
type LabMeshes struct {
	Names      []string // study.MeshIstio, study.MeshLinkerd; none of them: a plain Kubernetes
	IstioSet   []string // settings of istioctl install --set
	Linkerd    string   // a folder or a release
	LinkerdSet []string // settings of helm install --set
	Ambient    bool     // Istio has its ambient mode too
	Ztunnel    string   // a folder; "" with Istio's official images
	GatewayAPI bool     // the Gateway API's definitions are there too
}

// Resolve finds where ztunnel and Linkerd come from if no option says so. Istio's official
// images have a ztunnel of their own.
func (m *LabMeshes) Resolve(official bool) error {
	if m.Ambient && m.Ztunnel == "" && !official {
		m.Ztunnel = os.Getenv(ZtunnelVariable) // the lab refuses ""
	}
	if !slices.Contains(m.Names, study.MeshLinkerd) || m.Linkerd != "" {
		return nil
	}
	if m.Linkerd = os.Getenv(LinkerdVariable); m.Linkerd != "" {
		return nil
	}
	return errs.WithHint(errs.Usage("Linkerd is not built here, and nothing says where it comes from"),
		"--linkerd DIR names a folder with its programs and charts, --linkerd edge a release to pull; %s in the environment does the same", LinkerdVariable)
}

// StartLab starts a local lab. Its meshes are installed while the node still starts.
func StartLab(ctx context.Context, p Progress, o local.Options, meshes LabMeshes) (*local.Lab, error) {
	defer p.Clear()
	o.Progress = func(what string) { p.Say("lab: %s", what) }
	o.BuildProgress = p.Component
	if slices.Contains(meshes.Names, study.MeshLinkerd) {
		o.Linkerd = &components.LinkerdOptions{Source: meshes.Linkerd, Set: meshes.LinkerdSet}
	}
	o.Ambient, o.Ztunnel = meshes.Ambient, meshes.Ztunnel
	if len(meshes.Names) > 0 {
		o.OnAPI = func(ctx context.Context, l *local.Lab) error {
			installs, ctx := errgroup.WithContext(ctx)
			for _, name := range meshes.Names {
				installs.Go(func() error {
					installation, err := meshes.installation(ctx, l, o, name)
					if err != nil {
						return err
					}
					return installation.Apply(ctx, l.RESTConfig())
				})
			}
			return installs.Wait()
		}
	}
	return local.Up(ctx, o)
}

// installation is what a mesh's charts come to in a local lab.
func (m *LabMeshes) installation(ctx context.Context, l *local.Lab, o local.Options, name string) (lab.Installation, error) {
	switch name {
	case study.MeshIstio:
		set := append(istio.ManifestSettings(), m.IstioSet...)
		how := components.ManifestOptions{Set: set, Official: o.Official, Hub: o.Hub, Tag: o.Tag, GatewayAPI: m.GatewayAPI}
		if m.Ambient {
			how.Ambient = &components.AmbientManifests{Ztunnel: l.Images().Ztunnel, CNIBinDir: local.CNIBinDir, CNIConfDir: local.CNIConfDir}
		}
		manifests, err := l.Builder().Manifests(ctx, how)
		if err != nil {
			return lab.Installation{}, err
		}
		return istio.Installation(manifests)
	case study.MeshLinkerd:
		return linkerd.Installation(l.Linkerd())
	}
	return lab.Installation{}, fmt.Errorf("no way to install the mesh %s", name)
}
