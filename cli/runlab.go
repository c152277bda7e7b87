package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/cluster"
	"github.com/meshtrial/meshtrial/lab/doctor"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/observe/procfs"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/study"
)

// machineRemarks are what doctor warns of on the machine that a local lab
// measures on, for the report. A cluster's nodes are other machines.
func machineRemarks(ctx context.Context, p *progress, f runFlags) ([]string, error) {
	if f.lab != lab.KindLocal {
		return nil, nil
	}
	p.Say("checking the machine")
	defer p.Clear()
	facts, err := doctor.Gather(ctx, os.DirFS("/"), doctor.ThisHost{})
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return []string{fmt.Sprintf("whether the machine is fit to measure is unknown: %v", err)}, nil
	}
	return doctor.Remarks(doctor.JudgeMachine(facts)), nil
}

// openLab finds the lab, or starts one.
func openLab(ctx context.Context, env *Env, p *progress, f runFlags, plan *study.Plan) (lab.Lab, error) {
	if f.lab == lab.KindCluster {
		return openCluster(ctx, p, f, f.needs(plan))
	}
	running, err := local.Open("")
	if err == nil {
		if err := sameBuild(running); err != nil {
			return nil, err
		}
		if err := adopt(ctx, p, running, f.keepLab); err != nil {
			return nil, err
		}
		return running, nil
	}
	if !errors.Is(err, local.ErrNotRunning) {
		return nil, err
	}
	options := local.Options{EnvoyVersions: envoyVersions(plan), DownOnClose: !f.keepLab}
	options.Nodes, options.Zones = f.startedNodes(plan)
	meshes := labMeshes{names: planMeshes(plan), linkerd: f.linkerd, ambient: planAmbient(plan), ztunnel: f.ztunnel, gatewayAPI: plan.GatewayAPI()}
	meshes.resolveZtunnel()
	if err := meshes.resolve(); err != nil {
		return nil, err
	}
	started, err := UpLab(ctx, env, options, meshes)
	if err != nil {
		return nil, err
	}
	return started, nil
}

// needs are the rights that a plan needs in a cluster, in their places.
func (f runFlags) needs(plan *study.Plan) []rights.Feature {
	needs := rights.Place(rightsOf(plan, f.observe), placesOf(rights.Meshes(plan), ""))
	if namespace, _, pulls := strings.Cut(pullSecretOf(f.pullSecret), "/"); pulls {
		needs = append(needs, rights.Place(rights.For(plan, rights.PullSecret), placesOf(nil, namespace))...)
	}
	return needs
}

// besides are what a run's header says of a lab that holds more than a study
// needs.
func besides(where lab.Lab) []string {
	if l, ok := where.(interface{ MetricsServer() bool }); ok && l.MetricsServer() {
		return []string{"metrics-server runs in the lab and asks the kubelet every 15 s: both use CPU beside the study (lab up --metrics-server)"}
	}
	return nil
}

// openCluster opens the cluster of a kubeconfig if its user has the rights that
// are needed, and says what goes without others.
func openCluster(ctx context.Context, p *progress, f runFlags, needs []rights.Feature) (lab.Lab, error) {
	l, err := cluster.Open(ctx, cluster.Options{Kubeconfig: f.kubeconfig, Context: f.context, Images: clusterImages(f), Needs: needs})
	if err != nil {
		return nil, err
	}
	for _, note := range l.Notes() {
		p.Note("note: %s", note)
	}
	return l, nil
}

// placesOf are the namespaces that rights are asked for in: those of meshes'
// control planes, one that a run could have, and one that the user names ("" for
// all).
func placesOf(meshes []string, named string) rights.Places {
	at := rights.Places{Journal: journal.Namespace, Run: site.NamespacePrefix + "check", Meshes: map[string]string{}, Named: named}
	for _, name := range meshes {
		at.Meshes[name], _ = newMesh(name, lab.Images{}).ControlPlane()
	}
	return at
}

// needed are the rights of features in their places.
func needed(at rights.Places, names ...string) []rights.Feature {
	features, err := rights.Named(names...)
	if err != nil {
		panic(err) // a name that the table lacks
	}
	return rights.Place(features, at)
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
		of := ""
		if l.Orphaned() {
			of = ", for a run that was killed (" + l.Owner().String() + ")"
		}
		return errs.WithHint(errs.Usage("the running lab was started by another build of meshtrial%s, and its pods run that build", of),
			"`meshtrial lab down`; a run starts a lab of its own, or `meshtrial lab up`")
	}
	return nil
}

// adopt takes over a lab whose run was killed before it could take it down.
func adopt(ctx context.Context, p *progress, l *local.Lab, keep bool) error {
	if !l.Orphaned() {
		return nil
	}
	dead := l.Owner().String()
	mine, err := l.Adopt(ctx, keep)
	switch {
	case err != nil || !mine:
		return err
	case keep:
		p.Note("the running lab belongs to a run that was killed (%s); it stays up (--keep-lab)", dead)
	default:
		p.Note("the running lab belongs to a run that was killed (%s); it is taken down with this one", dead)
	}
	return nil
}

// labEndLimit bounds the wait for the end of a local lab whose API server answers
// no more.
const labEndLimit = 5 * time.Second

// labEnded explains why a lab could not be entered that another run has taken down
// meanwhile, as the run does that started it.
func labEnded(ctx context.Context, where lab.Lab, err error) error {
	var held *journal.HeldError
	if where.Kind() != lab.KindLocal || errors.As(err, &held) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, labEndLimit)
	defer cancel()
	for {
		if labGone() {
			return errs.WithHint(errors.New("the lab was taken down meanwhile, by the run that had started it or by `meshtrial lab down`"),
				"run again, which starts a lab; `meshtrial lab up` before several runs, or --keep-lab with the first, starts one that stays")
		}
		if wake.Pause(ctx, 100*time.Millisecond) != nil {
			return err
		}
	}
}

// labGone says that no local lab runs.
func labGone() bool {
	_, err := local.Open("")
	return errors.Is(err, local.ErrNotRunning)
}

// ownProgram is the file of the program that runs, whatever has become of its
// path.
const ownProgram = "/proc/self/exe"

// sameToday refuses to go on with a run that this program, lab or machine did
// not make, as far as that is known before the lab is there.
func sameToday(f runFlags, was record.Header) error {
	digest, err := local.Digest(ownProgram)
	if err != nil {
		return err
	}
	now := record.Header{Meshtrial: Version(), MeshtrialDigest: digest, Lab: f.labKind(), Observed: f.observe}
	if f.lab == lab.KindLocal {
		now.Machine = procfs.Machine(os.DirFS("/"))
		now.Machine.OS, now.Machine.CgroupMode = "", "" // the node has others
	}
	return runner.Same(f.resume, was, now)
}

// labKind is what a run's header says of its lab: to a pod in the local lab of whoever began
// the run that is a cluster as any other.
func (f runFlags) labKind() string {
	if f.own {
		return lab.KindLocal
	}
	return f.lab
}

// closeLab lets go of the lab, and says so if that ends it.
func closeLab(l lab.Lab, p *progress) error {
	if !l.Stays() {
		p.Say("taking the lab down")
		defer p.Clear()
	}
	return l.Close()
}

// checkLab finds flags that do not go with the lab.
func (f runFlags) checkLab() error {
	switch f.lab {
	case lab.KindLocal:
		for _, flag := range [][2]string{{"--kubeconfig", f.kubeconfig}, {"--context", f.context}, {"--image", f.image}, {"--pull-secret", f.pullSecret}} {
			if flag[1] != "" {
				return errs.WithHint(errs.Usage("%s requires --lab cluster", flag[0]), "add --lab cluster")
			}
		}
		if f.meshWide {
			return errs.WithHint(errs.Usage("--mesh-wide requires --lab cluster"), "add --lab cluster, or leave it out: in a lab on this machine no proxies are other people's")
		}
	case lab.KindCluster:
		if f.nodes > 0 || len(f.zones) > 0 {
			return errs.WithHint(errs.Usage("--nodes and --zones are for a lab on this machine: a cluster has its own"), "leave them out")
		}
		for _, flag := range []struct {
			name  string
			given bool
		}{{"--ztunnel", f.ztunnel != ""}, {"--linkerd", f.linkerd != ""}, {"--keep-lab", f.keepLab}} {
			if flag.given {
				return errs.WithHint(errs.Usage("%s is for a lab that a run starts on this machine, not for a cluster", flag.name), "leave it out")
			}
		}
		if f.image == "" {
			return errs.WithHint(errs.Usage("--lab cluster needs the image that the load generator, the worker and the observer run from"),
				"`meshtrial lab components images --push REGISTRY/NAME` pushes it to a registry that the cluster can pull from; name it with --image")
		}
		return f.checkImage()
	default:
		return errs.WithHint(errs.Usage("unknown lab %q", f.lab), "--lab takes local or cluster")
	}
	return nil
}
