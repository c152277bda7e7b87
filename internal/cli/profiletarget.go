package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/meshmark/meshmark/errs"
	"github.com/meshmark/meshmark/lab"
	"github.com/meshmark/meshmark/lab/cluster"
	"github.com/meshmark/meshmark/lab/local"
	"github.com/meshmark/meshmark/observe"
	"github.com/meshmark/meshmark/profile"
	"github.com/meshmark/meshmark/profile/node"
	"github.com/meshmark/meshmark/profile/perf"
	"github.com/meshmark/meshmark/runner"
)

// takePID profiles a process of this machine.
func takePID(ctx context.Context, env *Env, f profileFlags) (profiled, error) {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", f.pid))
	if err != nil {
		return profiled{}, errs.WithHint(errs.WithCode(fmt.Errorf("process %d: %w", f.pid, perf.ErrGone), errs.CodeUsage), "is it running, and on this machine?")
	}
	title := fmt.Sprintf("%s, process %d", strings.TrimSpace(string(name)), f.pid)
	line := newProgress(env.Stderr)
	defer line.clear()
	line.say("profile of %s for %v", title, f.length)
	r, err := perf.Tool{Path: f.perf}.Record(ctx, perf.Options{PIDs: []int{f.pid}, Hz: f.hz, Length: f.length, Graph: f.graph})
	if err != nil {
		return profiled{}, fmt.Errorf("profile of %s: %w", title, err)
	}
	if r.Profile.Len() == 0 {
		return profiled{}, nothingRan(title, r.Seconds)
	}
	r.Profile.Distrust(r.Files)
	return profiled{title, []*profile.Profile{r.Profile}}, nil
}

func nothingRan(title string, seconds float64) error {
	return errs.WithHint(fmt.Errorf("profile of %s: it used no CPU in %.1f s", title, seconds), "profile it while it works, or for longer: --length")
}

// takePod profiles a pod's container with the perf of its node.
func takePod(ctx context.Context, env *Env, f profileFlags, name string) (profiled, error) {
	l, err := f.openLab(ctx)
	if err != nil {
		if errors.Is(err, local.ErrNotRunning) {
			err = errs.WithHint(errs.Usage("%s: there is no such file, and no lab runs that could have such a pod", name), "start one with meshmark lab up, or name a cluster with --lab cluster")
		}
		return profiled{}, err
	}
	defer l.Close()
	line := newProgress(env.Stderr)
	defer line.clear()
	target := runner.PodTarget{Namespace: f.namespace, Sidecars: sidecars}
	target.Pod, target.Container, _ = strings.Cut(name, "/")
	answer, title, err := runner.ProfilePod(ctx, l, target, node.Request{Hz: f.hz, Seconds: f.length.Seconds(), Graph: f.graph},
		func(text string) { line.say("%s", text) })
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
	return profiled{title, []*profile.Profile{p}}, nil
}

// sidecars are names of containers that a pod's proxy has.
var sidecars = []string{"istio-proxy", "linkerd-proxy"}

// openLab opens the lab that the pod runs in; in a cluster the profile role
// needs an image of this program.
func (f profileFlags) openLab(ctx context.Context) (lab.Lab, error) {
	if err := f.istiod.check(); err != nil {
		return nil, err
	}
	if f.istiod.lab == lab.KindCluster {
		return cluster.Open(ctx, cluster.Options{Kubeconfig: f.istiod.kubeconfig, Context: f.istiod.context, Images: clusterImages(runFlags{image: f.image})})
	}
	return local.Open("")
}

// takePprof profiles a Go server over HTTP.
func takePprof(ctx context.Context, env *Env, f profileFlags) (profiled, error) {
	base := strings.TrimSuffix(strings.TrimSuffix(f.pprof, "/"), "/debug/pprof")
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	line := newProgress(env.Stderr)
	defer line.clear()
	line.say("%s profile of %s", f.kind, base)
	client := &http.Client{Timeout: f.length + time.Minute}
	defer client.CloseIdleConnections()
	data, err := observe.FetchProfile(ctx, observe.Replica{Name: base, HTTP: client, Base: base}, f.kind, f.length)
	if err != nil {
		var status *observe.StatusError
		if errors.As(err, &status) && status.Code == http.StatusNotFound {
			err = errs.WithHint(err, "a Go server offers profiles where it imports net/http/pprof; give the URL before /debug/pprof")
		}
		return profiled{}, err
	}
	p, err := profile.ReadPprof(bytes.NewReader(data))
	if err != nil {
		return profiled{}, err
	}
	title := f.kind + " profile of " + base
	if p.Len() == 0 {
		return profiled{}, errs.WithHint(fmt.Errorf("%s: it is empty", title), "profile it while it works, or for longer: --length; mutex and block profiles must be switched on in the program")
	}
	p.Distrust(nil)
	return profiled{title, []*profile.Profile{p}}, nil
}
