package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/cluster"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/lab/doctor"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/mesh/istio"
	"github.com/meshtrial/meshtrial/mesh/linkerd"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// machineRemarks are what doctor warns of on the machine that a local lab
// measures on, for the report. A cluster's nodes are other machines.
func (o *RunOptions) machineRemarks(ctx context.Context) ([]string, error) {
	if o.Lab != lab.KindLocal {
		return nil, nil
	}
	o.Progress.Say("checking the machine")
	defer o.Progress.Clear()
	lines, _, err := doctor.Check(ctx, os.DirFS("/"), doctor.ThisHost{})
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return []string{fmt.Sprintf("whether the machine is fit to measure is unknown: %v", err)}, nil
	}
	return doctor.Remarks(lines), nil
}

// openLab opens the lab, or starts one.
func (o *RunOptions) openLab(ctx context.Context, plan *study.Plan) (lab.Lab, error) {
	if o.Lab == lab.KindCluster {
		return OpenCluster(ctx, o.Progress, o.cluster(o.rights(plan)))
	}
	running, err := local.Open("")
	if err == nil {
		if err := sameBuild(running); err != nil {
			return nil, err
		}
		if err := o.adopt(ctx, running); err != nil {
			return nil, err
		}
		return running, nil
	}
	if !errors.Is(err, local.ErrNotRunning) {
		return nil, err
	}
	options := local.Options{EnvoyVersions: envoyVersions(plan), DownOnClose: !o.KeepLab}
	options.Nodes, options.Zones = o.startedNodes(plan)
	meshes := LabMeshes{Names: rights.Meshes(plan), Linkerd: o.Linkerd, Ambient: planAmbient(plan),
		Ztunnel: o.Ztunnel, GatewayAPI: plan.GatewayAPI()}
	if err := meshes.Resolve(false); err != nil {
		return nil, err
	}
	started, err := StartLab(ctx, o.Progress, options, meshes)
	if err != nil {
		return nil, err
	}
	return started, nil
}

// cluster is the user's cluster, with the rights that are needed there.
func (o *RunOptions) cluster(needs []rights.Feature) cluster.Options {
	return cluster.Options{Kubeconfig: o.Kubeconfig, Context: o.Context, Images: ClusterImages(o.Image, o.PullSecret),
		Needs: needs}
}

// rights are those that a plan needs in a cluster, in their places.
func (o *RunOptions) rights(plan *study.Plan) []rights.Feature {
	needs := rights.Place(planRights(plan, o.Observe), Places(rights.Meshes(plan), ""))
	if namespace, _, pulls := strings.Cut(qualified(o.PullSecret), "/"); pulls {
		needs = append(needs, rights.Place(rights.For(plan, rights.PullSecret), Places(nil, namespace))...)
	}
	return needs
}

// planRights are the rights that a plan needs with a source of CPU and memory.
func planRights(plan *study.Plan, observe string) []rights.Feature {
	if observe == record.ObservedKubelet {
		return rights.OfKubelets(plan)
	}
	return rights.Of(plan)
}

// sameBuild refuses a lab whose pods are of another build of this program.
func sameBuild(l *local.Lab) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	switch other, err := l.StartedByOther(program); {
	case err != nil:
		return fmt.Errorf("compare this program with that of the lab: %w", err)
	case other:
		owner := ""
		if l.Orphaned() {
			owner = ", for a run that was killed (" + l.Owner().String() + ")"
		}
		return errs.WithHint(errs.Usage("the running lab was started by another build of meshtrial%s, and its pods run that build", owner),
			"`meshtrial lab down`; a run starts a lab of its own, or `meshtrial lab up`")
	}
	return nil
}

// adopt takes over a lab whose run was killed before it could take it down.
func (o *RunOptions) adopt(ctx context.Context, l *local.Lab) error {
	if !l.Orphaned() {
		return nil
	}
	dead := l.Owner().String()
	mine, err := l.Adopt(ctx, o.KeepLab)
	switch {
	case err != nil || !mine:
		return err
	case o.KeepLab:
		o.Progress.Note("the running lab belongs to a run that was killed (%s); it stays up (--keep-lab)", dead)
	default:
		o.Progress.Note("the running lab belongs to a run that was killed (%s); it is taken down with this one", dead)
	}
	return nil
}

// closeLab closes the lab, and says so if that takes it down.
func closeLab(l lab.Lab, p Progress) error {
	if !l.Stays() {
		p.Say("taking the lab down")
		defer p.Clear()
	}
	return l.Close()
}

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
func (m *LabMeshes) installation(ctx context.Context, l *local.Lab, o local.Options,
	name string) (lab.Installation, error) {
	switch name {
	case study.MeshIstio:
		set := append(istio.ManifestSettings(), m.IstioSet...)
		how := components.ManifestOptions{Set: set, Official: o.Official, Hub: o.Hub, Tag: o.Tag,
			GatewayAPI: m.GatewayAPI}
		if m.Ambient {
			how.Ambient = &components.AmbientManifests{Ztunnel: l.Images().Ztunnel, CNIBinDir: local.CNIBinDir,
				CNIConfDir: local.CNIConfDir}
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
