package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/cluster"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/observe/profile"
	"github.com/meshtrial/meshtrial/observe/profile/node"
	"github.com/meshtrial/meshtrial/observe/profile/perf"
	"github.com/meshtrial/meshtrial/run/site"
)

// takePID profiles a process on this machine.
func takePID(ctx context.Context, env *Env, f profileFlags) (profiled, error) {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", f.pid))
	if err != nil {
		return profiled{}, errs.WithHint(errs.WithCode(fmt.Errorf("process %d: %w", f.pid, perf.ErrGone), errs.CodeUsage),
			"is it running, and on this machine?")
	}
	title := fmt.Sprintf("%s, process %d", strings.TrimSpace(string(name)), f.pid)
	line := newProgress(env.Stderr)
	defer line.Clear()
	line.Say("profile of %s for %v", title, f.length)
	r, err := perf.Tool{Path: f.perf}.Record(ctx, perf.Options{PIDs: []int{f.pid}, Hz: f.hz, Length: f.length, Graph: f.graph})
	if err != nil {
		return profiled{}, fmt.Errorf("profile of %s: %w", title, err)
	}
	if r.Profile.Len() == 0 {
		return profiled{}, nothingRan(title, r.Seconds)
	}
	f.settle(r.Profile, r.Files)
	return profiled{title, []*profile.Profile{r.Profile}}, nil
}

func nothingRan(title string, seconds float64) error {
	return errs.WithHint(fmt.Errorf("profile of %s: it used no CPU in %.1f s", title, seconds),
		"profile it under load, or for longer: --length")
}

// takePod profiles a container of a pod with the perf of the pod's node.
func takePod(ctx context.Context, env *Env, f profileFlags, name string) (profiled, error) {
	line := newProgress(env.Stderr)
	defer line.Clear()
	l, err := f.openLab(ctx, line)
	if err != nil {
		if errors.Is(err, local.ErrNotRunning) {
			err = errs.WithHint(errs.Usage("%s: there is no such file, and no lab is running that could have such a pod", name),
				"start one with meshtrial lab up, or name a cluster with --lab cluster")
		}
		return profiled{}, err
	}
	defer l.Close()
	target := site.PodTarget{Namespace: f.namespace, Sidecars: sidecars}
	target.Pod, target.Container, _ = strings.Cut(name, "/")
	if f.kind != observe.ProfileCPU {
		return takePodHTTP(ctx, env, f, l, target)
	}
	run := app.CommandRun("profile")
	claim := app.Claim{Config: l.RESTConfig(), Run: run, Wait: f.wait, OwnLab: l.Kind() == lab.KindLocal}
	var answer node.Answer
	var title string
	err = app.Occupy(ctx, line, claim, func(ctx context.Context, _ *journal.Journal) (err error) {
		answer, title, err = site.ProfilePod(ctx, l, site.PodProfile{Run: run, Target: target,
			Request:  node.Request{Hz: f.hz, Seconds: f.length.Seconds(), Graph: f.graph},
			Progress: func(text string) { line.Say("%s", text) }, Note: func(text string) { line.Note("%s", text) }})
		return err
	})
	if err != nil {
		return profiled{}, fmt.Errorf("profile of pod %s: %w", name, err)
	}
	p, err := answer.Profile()
	if err != nil {
		return profiled{}, err
	}
	if p.Len() == 0 {
		return profiled{}, nothingRan(title, answer.Seconds)
	}
	f.settle(p, nil)
	return profiled{title, []*profile.Profile{p}}, nil
}

// sidecars lists the names of proxy containers in pods.
var sidecars = []string{"istio-proxy", "linkerd-proxy"}

// openLab opens the lab in which the pod runs. In a cluster the profile role needs an image of
// this program.
func (f profileFlags) openLab(ctx context.Context, line *progress) (lab.Lab, error) {
	if err := f.where.Check(); err != nil {
		return nil, err
	}
	if f.where.Lab == lab.KindCluster {
		features := []string{rights.Reach, rights.ProfilePage}
		if f.kind == observe.ProfileCPU {
			features = []string{rights.Reach, rights.Journal, rights.Keeper, rights.ProfilePod}
		}
		return app.OpenCluster(ctx, line, cluster.Options{Kubeconfig: f.where.Kubeconfig, Context: f.where.Context,
			Images: app.ClusterImages(f.image, ""), Needs: app.Rights(app.Places(nil, f.namespace), features...)})
	}
	return local.Open("")
}

// Ports on which pods serve profiles.
const (
	adminPort = 15000 // Istio's sidecars
	pprofPort = 8080  // istiod
)

// takePodHTTP asks a pod for a profile that perf cannot take: an Istio sidecar through Envoy's
// admin interface, other pods through pprof.
func takePodHTTP(ctx context.Context, env *Env, f profileFlags, l lab.Lab, target site.PodTarget) (profiled, error) {
	container, err := site.PodContainer(ctx, l, target)
	if err != nil {
		return profiled{}, err
	}
	admin, port := container == sidecars[0], pprofPort
	if admin {
		port = adminPort
	}
	if f.port != 0 {
		port = f.port
	}
	dialer := lab.NewDialer(l.RESTConfig())
	defer dialer.Close()
	client := dialer.Client(target.Namespace, target.Pod, port)
	defer client.CloseIdleConnections()
	title := f.kind + " profile of " + target.Namespace + "/" + target.Pod + "/" + container
	line := newProgress(env.Stderr)
	defer line.Clear()
	line.Say("%s", title)
	fetch, empty := observe.FetchProfile, "profile it under load, or for longer: --length; the program must enable mutex and block profiles"
	if admin {
		fetch, empty = observe.FetchEnvoyProfile, "Envoy samples one allocation per 2 MB or so: profile it under more load, or for longer: --length"
	}
	data, err := fetch(ctx, observe.Replica{Name: target.Pod, HTTP: client}, f.kind, f.length)
	var status *observe.StatusError
	switch {
	case err != nil && container == sidecars[1]:
		return profiled{}, errs.WithHint(err, "Linkerd's proxy serves no profiles; --kind cpu records one with perf")
	case !admin && errors.As(err, &status) && status.Code == http.StatusNotFound:
		return profiled{}, errs.WithHint(err, "a Go server offers profiles if it imports net/http/pprof")
	case err != nil:
		return profiled{}, err
	}
	p, err := profile.ReadPprof(bytes.NewReader(data))
	if err != nil {
		return profiled{}, err
	}
	if p.Len() == 0 {
		return profiled{}, errs.WithHint(fmt.Errorf("the %s is empty", title), "%s", empty)
	}
	f.settle(p, nil)
	return profiled{title, []*profile.Profile{p}}, nil
}
