package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/mesh/istio"
	"github.com/meshtrial/meshtrial/mesh/linkerd"
	"github.com/meshtrial/meshtrial/study"
)

// linkerdVariable names where Linkerd comes from, for commands that are not
// told.
const linkerdVariable = "MESHTRIAL_LINKERD"

// ztunnelVariable names where ztunnel comes from, likewise.
const ztunnelVariable = "MESHTRIAL_ZTUNNEL"

// labMeshes are the meshes of a local lab, and how they are installed.
type labMeshes struct {
	names      []string // study.MeshIstio, study.MeshLinkerd; none of them: a plain Kubernetes
	istioSet   []string // settings of istioctl install --set
	linkerd    string   // a folder or a release
	linkerdSet []string // settings of helm install --set
	ambient    bool     // Istio has its ambient mode too
	ztunnel    string   // a folder; "" with Istio's official images
	gatewayAPI bool     // the Gateway API's definitions are there too
}

// parseMeshes reads what --mesh says.
func parseMeshes(text string) ([]string, error) {
	var names []string
	for _, name := range strings.Split(text, ",") {
		name = strings.TrimSpace(name)
		switch {
		case !slices.Contains(study.Meshes(), name):
			return nil, errs.WithHint(errs.Usage("unknown mesh %q", name), "istio, linkerd, both as istio,linkerd, or none")
		case slices.Contains(names, name):
			return nil, errs.Usage("--mesh names %s twice", name)
		}
		names = append(names, name)
	}
	if !slices.Contains(names, study.MeshNone) {
		return names, nil
	}
	if len(names) > 1 {
		return nil, errs.Usage("--mesh is none or names meshes, not both")
	}
	return nil, nil
}

// flagged takes what the flags of lab up say: --linkerd adds Linkerd to the
// meshes unless those are named too.
func (m *labMeshes) flagged(mesh string, meshGiven, official bool) error {
	var err error
	if m.names, err = parseMeshes(mesh); err != nil {
		return err
	}
	has := slices.Contains(m.names, study.MeshLinkerd)
	switch {
	case m.linkerd != "" && !has && meshGiven:
		return errs.WithHint(errs.Usage("--linkerd says where Linkerd comes from, but --mesh %s leaves it out", mesh), "--mesh istio,linkerd installs both")
	case m.linkerd != "" && !has:
		m.names = append(m.names, study.MeshLinkerd)
	case !has && len(m.linkerdSet) > 0:
		return errs.Usage("--linkerd-set requires --linkerd")
	case has && m.linkerd == "" && official:
		m.linkerd = "edge"
	}
	m.ambient = m.ambient || m.ztunnel != ""
	switch {
	case m.ambient && !slices.Contains(m.names, study.MeshIstio):
		return errs.WithHint(errs.Usage("an ambient mesh is Istio's, but --mesh %s leaves it out", mesh), "--mesh istio, or with others istio,linkerd")
	case m.gatewayAPI && !slices.Contains(m.names, study.MeshIstio):
		return errs.WithHint(errs.Usage("the Gateway API is for Istio's gateways, but --mesh %s leaves Istio out", mesh), "--mesh istio, or with others istio,linkerd")
	case m.ztunnel != "" && official:
		return errs.Usage("--ztunnel requires --images built: the official images have a ztunnel of their own")
	case !official:
		m.resolveZtunnel()
	}
	return m.resolve()
}

// resolveZtunnel finds where ztunnel comes from if nothing said so. That nothing does,
// the lab refuses.
func (m *labMeshes) resolveZtunnel() {
	if m.ambient && m.ztunnel == "" {
		m.ztunnel = os.Getenv(ztunnelVariable)
	}
}

// resolve finds where Linkerd comes from if nothing said so.
func (m *labMeshes) resolve() error {
	if !slices.Contains(m.names, study.MeshLinkerd) || m.linkerd != "" {
		return nil
	}
	if m.linkerd = os.Getenv(linkerdVariable); m.linkerd != "" {
		return nil
	}
	return errs.WithHint(errs.Usage("Linkerd is not built here, and nothing says where it comes from"),
		"--linkerd DIR names a folder with its programs and charts, --linkerd edge a release to pull; %s in the environment does the same", linkerdVariable)
}

// planMeshes are the meshes that a plan's cells name.
func planMeshes(plan *study.Plan) []string {
	var names []string
	add := func(name string) {
		if name != "" && name != study.MeshNone && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	own := true
	for _, cell := range plan.Cells {
		if level, ok := cell[study.FactorMesh]; ok {
			own = false
			add(level)
		}
	}
	if own {
		add(plan.Study.Mesh)
	}
	slices.Sort(names)
	return names
}

// planAmbient says whether a cell of a plan has its requests carried by ztunnel.
func planAmbient(plan *study.Plan) bool { return slices.ContainsFunc(plan.Cells, study.Ambient) }

// planLinkerd says whether a cell of a plan is of Linkerd.
func planLinkerd(plan *study.Plan) bool { return slices.Contains(planMeshes(plan), study.MeshLinkerd) }

// UpLab starts a local lab with its meshes, and tells a person at a terminal
// what happens. The meshes are installed while the node still starts.
func UpLab(ctx context.Context, env *Env, o local.Options, meshes labMeshes) (*local.Lab, error) {
	line := newProgress(env.Stderr)
	defer line.Clear()
	o.Progress = func(what string) { line.Say("lab: %s", what) }
	o.BuildProgress = line.Component
	if slices.Contains(meshes.names, study.MeshLinkerd) {
		o.Linkerd = &components.LinkerdOptions{Source: meshes.linkerd, Set: meshes.linkerdSet}
	}
	o.Ambient, o.Ztunnel = meshes.ambient, meshes.ztunnel
	if len(meshes.names) > 0 {
		o.OnAPI = func(ctx context.Context, l *local.Lab) error { return installMeshes(ctx, l, o, meshes) }
	}
	return local.Up(ctx, o)
}

func installMeshes(ctx context.Context, l *local.Lab, o local.Options, meshes labMeshes) error {
	installs, ctx := errgroup.WithContext(ctx)
	for _, name := range meshes.names {
		installs.Go(func() error {
			installation, err := installationOf(ctx, l, o, meshes, name)
			if err != nil {
				return err
			}
			return installation.Apply(ctx, l.RESTConfig())
		})
	}
	return installs.Wait()
}

// installationOf is what a mesh's charts come to in a lab of ours.
func installationOf(ctx context.Context, l *local.Lab, o local.Options, meshes labMeshes, name string) (lab.Installation, error) {
	switch name {
	case study.MeshIstio:
		set := append(istio.ManifestSettings(), meshes.istioSet...)
		how := components.ManifestOptions{Set: set, Official: o.Official, Hub: o.Hub, Tag: o.Tag, GatewayAPI: meshes.gatewayAPI}
		if meshes.ambient {
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
