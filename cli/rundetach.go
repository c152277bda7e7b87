package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/kinds"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/cluster"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/run/detached"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/study"
)

// detach has a study run in the cluster by itself, once everything is checked that a run
// checks before it starts.
func detach(ctx context.Context, env *Env, f runFlags, args []string) (err error) {
	if err := f.checkDetach(); err != nil {
		return err
	}
	s, source, plan, err := prepare(ctx, env, f, args)
	if err != nil {
		return err
	}
	rules, err := f.rules(s)
	if err != nil {
		return err
	}
	p := newProgress(env.Stderr)
	defer p.Clear()
	spec := detached.Spec{Run: runner.NewRunID(time.Now()), Study: s.Name, Source: source, Resolved: s.Marshal()}
	where, err := f.openDetached(ctx, p, plan, &spec)
	if err != nil {
		return err
	}
	if err := f.vacant(ctx, where); err != nil {
		return err
	}
	options := runner.Options{Study: s, Kind: kinds.Of(s).Trial, Rules: rules, Source: source, Observed: f.observe, Lab: where}
	connected, done, err := completed(ctx, p, f, plan, &options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	if err := options.Kind.Check(plan); err != nil {
		return err
	}
	if _, err := options.Kind.Fit(ctx, &options, plan); err != nil {
		return err
	}
	if spec.Ending, err = runner.Ending(ctx, &options, plan); err != nil {
		return err
	}
	if err := agreeTo(ctx, env, p, f, plan, &options, connected); err != nil {
		return err
	}
	words := f.labWords()
	if !f.own { // whoever has rights in that namespace alone finds it too
		words += " -n " + spec.Namespace
	}
	clients, err := detached.Open(where.RESTConfig(), words)
	if err != nil {
		return err
	}
	spec.Args, spec.Images = f.detachedArgs(spec), where.Images()
	p.Say("beginning run %s", spec.Run)
	if err := clients.Start(ctx, spec); err != nil {
		return fmt.Errorf("begin a detached run: %w", err)
	}
	p.Clear()
	if f.json {
		return writeJSON(env.Stdout, map[string]any{"schema": 1, "run": spec.Run, "namespace": spec.Namespace})
	}
	which := spec.Run + words
	_, err = fmt.Fprintf(env.Stdout, "run %s of %s goes on in the cluster\n  to follow it:           meshtrial attach %s\n  to fetch it at its end: meshtrial runs fetch %s\n",
		spec.Run, s.Name, which, which)
	return err
}

// labWords are the flags by which other commands find the same lab.
func (f runFlags) labWords() string {
	if f.own {
		return ""
	}
	return " --lab " + lab.KindCluster + clusterWords(f.kubeconfig, f.context)
}

// clusterWords are the flags by which commands find a cluster of the user's.
func clusterWords(kubeconfig, inContext string) (words string) {
	for _, flag := range [][2]string{{"--kubeconfig", kubeconfig}, {"--context", inContext}} {
		if flag[1] != "" {
			words += " " + flag[0] + " " + shellQuote(flag[1])
		}
	}
	return words
}

// checkDetach finds flags that do not go with --detach.
func (f runFlags) checkDetach() error {
	switch {
	case f.resume != "":
		return errs.WithHint(errs.Usage("--detach and --resume are mutually exclusive: the directory is not in the cluster"), "a detached run that loses its pod resumes by itself, in its own directory")
	case f.out != "":
		return errs.WithHint(errs.Usage("--detach and --out are mutually exclusive"), "--results says where results go in the cluster, and `meshtrial runs fetch RUN --to DIR` where to on this machine")
	case f.nodes > 0 || len(f.zones) > 0:
		return errs.WithHint(errs.Usage("--detach starts no lab, so --nodes and --zones mean nothing with it"), "meshtrial lab up --nodes 3, and then the run")
	case f.lab == lab.KindLocal && (f.ztunnel != "" || f.linkerd != ""):
		return errs.WithHint(errs.Usage("--detach starts no lab, so --ztunnel and --linkerd mean nothing with it"), "meshtrial lab up --ztunnel DIR or --linkerd DIR, and then the run")
	case f.keepLab:
		return errs.WithHint(errs.Usage("--detach and --keep-lab are mutually exclusive: it starts no lab"), "meshtrial lab up")
	case f.results == "" && f.lab == lab.KindCluster:
		return errs.WithHint(errs.Usage("--detach needs to know where results go in the cluster"), "--results pvc:NAMESPACE/NAME, a PersistentVolumeClaim")
	case f.results != "":
		_, _, err := claimOf(f.results)
		return err
	}
	return nil
}

// claimOf reads --results.
func claimOf(text string) (namespace, name string, err error) {
	claim, ok := strings.CutPrefix(text, "pvc:")
	namespace, name, both := strings.Cut(claim, "/")
	if !both {
		namespace, name = "default", claim
	}
	if !ok || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return "", "", errs.WithHint(errs.Usage("--results %s is no place for results", text), "pvc:NAME or pvc:NAMESPACE/NAME, a PersistentVolumeClaim")
	}
	return namespace, name, nil
}

// openDetached opens the cluster that a detached run is to be in, as the pod will see it, if
// its user has the rights. A local lab must stay: the run does not end with this process.
func (f *runFlags) openDetached(ctx context.Context, p *progress, plan *study.Plan, spec *detached.Spec) (lab.Lab, error) {
	spec.Namespace, spec.OwnNamespace = "meshtrial-detached-"+spec.Run, true
	if f.results != "" {
		var err error
		if spec.Namespace, spec.Claim, err = claimOf(f.results); err != nil {
			return nil, err
		}
		spec.OwnNamespace = false
	}
	if f.lab == lab.KindLocal {
		running, err := lasting()
		if err != nil {
			return nil, err
		}
		if f.results == "" {
			if spec.Folder, err = running.ResultsDir(); err != nil {
				return nil, fmt.Errorf("make a folder for results: %w", err)
			}
		}
		// To the pod it is a cluster as any other; nothing in it is anybody else's.
		f.lab, f.kubeconfig, f.image, f.own, f.yes, f.meshWide = lab.KindCluster, running.Kubeconfig(), running.Images().Meshtrial, true, true, true
		p.Note("the run and its results are in the lab %s, and end with it (meshtrial lab down, or a reboot)", running.ID())
	}
	where, err := openCluster(ctx, p, *f, append(f.needs(plan), needed(placesOf(nil, spec.Namespace), rights.Detached)...))
	if err != nil {
		return nil, err
	}
	kube, err := kubernetes.NewForConfig(where.RESTConfig())
	if err != nil {
		return nil, err
	}
	var notes []string
	if spec.Rights, notes, err = cluster.Grantable(ctx, kube, f.needs(plan)); err != nil {
		return nil, err
	}
	for _, note := range notes { // what this user lacks himself was told
		p.Note("note: %s", note)
	}
	return where, nil
}

// lasting is the local lab, if one is up that does not end with another command.
func lasting() (*local.Lab, error) {
	running, err := local.Open("")
	if errors.Is(err, local.ErrNotRunning) {
		return nil, errs.WithHint(errs.Usage("%v, and a detached run needs one that stays", err), "meshtrial lab up")
	}
	if err != nil {
		return nil, err
	}
	if err := sameBuild(running); err != nil {
		return nil, err
	}
	if owner := running.Owner(); owner != nil {
		return nil, errs.WithHint(errs.Usage("the running lab goes down when the run that started it ends (%s)", owner), "wait for that, and start one that stays: meshtrial lab up")
	}
	return running, nil
}

// vacant refuses a cluster that another run has, unless the detached one is to wait.
func (f runFlags) vacant(ctx context.Context, where lab.Lab) error {
	objects, err := dynamic.NewForConfig(where.RESTConfig())
	if err != nil {
		return err
	}
	holder, err := journal.At(ctx, objects)
	if err != nil || holder == nil || f.wait > 0 {
		return err
	}
	return errs.WithHint(errs.Usage("%v", &journal.HeldError{Holder: *holder}),
		"--wait 24h makes the detached run wait that long for it; if it is dead: meshtrial cluster restore%s", clusterWords(f.kubeconfig, f.context))
}

// detachedArgs are the command line of the run's pod.
func (f runFlags) detachedArgs(spec detached.Spec) []string {
	out := []string{"detached-run", "--given", detached.GivenDir, "--run", spec.Run, "--namespace", spec.Namespace,
		"--lab", lab.KindCluster, "--image", f.image, "--observe", f.observe, "--yes"}
	if f.meshWide {
		out = append(out, "--mesh-wide")
	}
	if f.own {
		out = append(out, "--own")
	}
	for _, flag := range [][2]string{{"--pull-secret", f.pullSecret}, {"--revision", f.revision}} {
		if flag[1] != "" {
			out = append(out, flag[0], flag[1])
		}
	}
	if f.wait > 0 {
		out = append(out, "--wait", f.wait.String())
	}
	for _, limit := range f.limits {
		out = append(out, "--limit", limit)
	}
	return out
}
