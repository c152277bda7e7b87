package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/cluster"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/run/detached"
	"github.com/meshtrial/meshtrial/run/runner"
)

// Results says where a detached run leaves its directory: in a PersistentVolumeClaim, or in a
// folder of the local lab if Claim is "".
type Results struct{ Namespace, Claim string }

// Detached is a run that continues in the cluster without this process.
type Detached struct {
	Run, Study, Namespace string
	// Flags are the flags with which other commands find the run.
	Flags string
}

// Detach begins a run in the cluster, after all the checks that a run makes before it starts.
func Detach(ctx context.Context, o RunOptions, results Results) (begun Detached, err error) {
	r, err := o.prepare(ctx)
	if err != nil {
		return begun, err
	}
	defer r.Progress.Clear()
	spec := detached.Spec{Run: runner.NewRunID(time.Now()), Study: r.Study.Name, Source: r.Source,
		Resolved: r.Study.Marshal()}
	where, err := r.openDetached(ctx, results, &spec)
	if err != nil {
		return begun, err
	}
	if err := r.unoccupied(ctx, where); err != nil {
		return begun, err
	}
	r.runner.Lab = where
	closePlane, connected, err := r.complete(ctx)
	if err != nil {
		return begun, err
	}
	defer func() { err = errors.Join(err, closePlane()) }()
	if err := r.runner.Kind.Check(r.plan); err != nil {
		return begun, err
	}
	if _, err := r.runner.Kind.Fit(ctx, &r.runner, r.plan); err != nil {
		return begun, err
	}
	if spec.Ending, err = runner.Ending(ctx, &r.runner, r.plan); err != nil {
		return begun, err
	}
	if err := r.confirm(ctx, connected); err != nil {
		return begun, err
	}
	begun = Detached{Run: spec.Run, Study: spec.Study, Namespace: spec.Namespace}
	if !r.OwnLab { // a user with rights in that namespace only can find it too
		begun.Flags = r.Where.Flags() + " -n " + spec.Namespace
	}
	clients, err := detached.Open(where.RESTConfig(), begun.Flags)
	if err != nil {
		return begun, err
	}
	if spec.Args, err = r.podArgs(spec); err != nil {
		return begun, err
	}
	spec.Images = where.Images()
	r.Progress.Say("starting run %s", spec.Run)
	if err := clients.Start(ctx, spec); err != nil {
		return begun, fmt.Errorf("start a detached run: %w", err)
	}
	return begun, nil
}

// podArgs returns the command line of the run's pod.
func (o *RunOptions) podArgs(spec detached.Spec) ([]string, error) {
	options, err := json.Marshal(o)
	return []string{"detached-run", "--run", spec.Run, "--namespace", spec.Namespace, "--options", string(options)}, err
}

// openDetached opens the cluster for a detached run, as the run's pod will see it. A local lab
// must outlive this process, because the run does.
func (r *prepared) openDetached(ctx context.Context, results Results, spec *detached.Spec) (lab.Lab, error) {
	spec.Namespace, spec.Claim, spec.OwnNamespace = results.Namespace, results.Claim, results.Claim == ""
	if spec.OwnNamespace {
		spec.Namespace = "meshtrial-detached-" + spec.Run
	}
	if r.Lab == lab.KindLocal {
		running, err := lastingLab()
		if err != nil {
			return nil, err
		}
		if results.Claim == "" {
			if spec.Folder, err = running.ResultsDir(); err != nil {
				return nil, fmt.Errorf("create a folder for results: %w", err)
			}
		}
		// The pod treats the lab as an ordinary cluster in which nothing belongs to others.
		r.Lab, r.Kubeconfig, r.Image = lab.KindCluster, running.Kubeconfig(), running.Images().Meshtrial
		r.OwnLab = true
		r.Progress.Note("the run and its results are in the lab %s, and end with it (meshtrial lab down, or a reboot)", running.ID())
	}
	needs := r.rights(r.plan)
	all := append(slices.Clone(needs), Rights(Places(nil, spec.Namespace), rights.Detached)...)
	where, err := OpenCluster(ctx, r.Progress, r.cluster(all))
	if err != nil {
		return nil, err
	}
	kube, err := kubernetes.NewForConfig(where.RESTConfig())
	if err != nil {
		return nil, err
	}
	var notes []string
	if spec.Rights, notes, err = cluster.Grantable(ctx, kube, needs); err != nil {
		return nil, err
	}
	for _, note := range notes {
		r.Progress.Note("note: %s", note)
	}
	return where, nil
}

// lastingLab returns the running local lab. It fails if there is none, or if the lab ends with
// another command.
func lastingLab() (*local.Lab, error) {
	running, err := local.Open("")
	if errors.Is(err, local.ErrNotRunning) {
		return nil, errs.WithHint(errs.Usage("%v, and a detached run needs one that keeps running", err), "meshtrial lab up")
	}
	if err != nil {
		return nil, err
	}
	if err := sameBuild(running); err != nil {
		return nil, err
	}
	if owner := running.Owner(); owner != nil {
		return nil, errs.WithHint(errs.Usage("the running lab stops when the run that started it ends (%s)", owner),
			"wait for that, then start one that keeps running: meshtrial lab up")
	}
	return running, nil
}

// unoccupied returns an error if another run holds the cluster, unless the detached run is to
// wait.
func (o *RunOptions) unoccupied(ctx context.Context, where lab.Lab) error {
	objects, err := dynamic.NewForConfig(where.RESTConfig())
	if err != nil {
		return err
	}
	holder, err := journal.At(ctx, objects)
	if err != nil || holder == nil || o.Wait > 0 {
		return err
	}
	return errs.WithHint(errs.Usage("%v", &journal.HeldError{Holder: *holder}),
		"--wait 24h makes the detached run wait that long for it; if it is dead: meshtrial cluster restore%s",
		ClusterFlags(o.Kubeconfig, o.Context))
}
