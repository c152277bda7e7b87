package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/cluster"
	"github.com/meshtrial/meshtrial/lab/doctor"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// machineRemarks returns doctor's warnings about the machine on which a local lab measures, for
// the report. The nodes of a cluster are other machines.
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
		return []string{fmt.Sprintf("it is unknown whether the machine is fit to measure: %v", err)}, nil
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
	options := local.Options{DownOnClose: !o.KeepLab}
	options.Nodes, options.Zones = o.startedNodes(plan)
	names := rights.Meshes(plan)
	settings, err := planChoices(plan, names, o.Meshes)
	if err != nil {
		return nil, err
	}
	started, err := StartLab(ctx, o.Progress, options, names, settings)
	if err != nil {
		return nil, err
	}
	return started, nil
}

// cluster returns the options for the user's cluster, with the rights needed there.
func (o *RunOptions) cluster(needs []rights.Feature) cluster.Options {
	return cluster.Options{Kubeconfig: o.Kubeconfig, Context: o.Context, Images: ClusterImages(o.Image, o.PullSecret),
		Needs: needs}
}

// rights returns the rights that a plan needs in a cluster, with their places.
func (o *RunOptions) rights(plan *study.Plan) []rights.Feature {
	needs := rights.Place(planRights(plan, o.Observe), Places(rights.Meshes(plan), ""))
	if namespace, _, pulls := strings.Cut(qualified(o.PullSecret), "/"); pulls {
		needs = append(needs, rights.Place(rights.For(plan, rights.PullSecret), Places(nil, namespace))...)
	}
	return needs
}

// planRights returns the rights that a plan needs with a source of CPU and memory.
func planRights(plan *study.Plan, observe string) []rights.Feature {
	of := rights.Of
	if observe == record.ObservedKubelet {
		of = rights.OfKubelets
	}
	return of(plan)
}

// sameBuild returns an error if the lab's pods run another build of this program.
func sameBuild(l *local.Lab) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	switch other, err := l.StartedByOther(program); {
	case err != nil:
		return fmt.Errorf("compare this program with the lab's: %w", err)
	case other:
		owner := ""
		if l.Orphaned() {
			owner = ", for a run that was killed (" + l.Owner().String() + ")"
		}
		return errs.WithHint(errs.Usage("the running lab was started by another build of meshtrial%s, and its pods run that build", owner),
			"`meshtrial lab down`; then a run starts its own lab, or use `meshtrial lab up`")
	}
	return nil
}

// adopt takes over a lab whose run was killed before it could take the lab down.
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
		o.Progress.Note("the running lab belongs to a run that was killed (%s); it keeps running (--keep-lab)", dead)
	default:
		o.Progress.Note("the running lab belongs to a run that was killed (%s); it stops when this run ends", dead)
	}
	return nil
}

// closeLab closes the lab and reports it if that takes the lab down.
func closeLab(l lab.Lab, p Progress) error {
	if !l.Stays() {
		p.Say("stopping the lab")
		defer p.Clear()
	}
	return l.Close()
}

// StartLab starts a local lab. It installs the named meshes while the node is still starting.
// settings must be resolved.
func StartLab(ctx context.Context, p Progress, o local.Options, names []string, settings mesh.Choices) (*local.Lab, error) {
	defer p.Clear()
	o.Progress = func(what string) { p.Say("lab: %s", what) }
	o.BuildProgress = p.Component
	var err error
	if o.Supplies, err = Supplies(ctx, names, settings); err != nil {
		return nil, err
	}
	o.OnAPI = func(ctx context.Context, l *local.Lab) error {
		installs, ctx := errgroup.WithContext(ctx)
		for _, supply := range o.Supplies {
			if supply.Install == nil {
				continue
			}
			installs.Go(func() error {
				installation, err := supply.Install(ctx, l.Builder())
				if err != nil {
					return err
				}
				return installation.Apply(ctx, l.RESTConfig())
			})
		}
		return installs.Wait()
	}
	return local.Up(ctx, o)
}
