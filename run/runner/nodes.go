package runner

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
)

// mostLooked limits how many nodes are examined for one like those of an earlier attempt, and
// lookTime how long each may take.
const (
	mostLooked = 100
	lookTime   = 15 * time.Second
)

// machine returns the machine that the run is on. With several nodes it is the first,
// starting with those of the run's pods. A run with trials continues if one node matches that
// of its header, or one that a trial was on; it then keeps that machine. Analysis decides
// which trials may be combined.
func (r *run) machine(ctx context.Context, at *site.Site, pods []site.Pod) (first record.Machine, err error) {
	had := map[string]bool{}
	for i := range r.trials {
		for _, node := range r.trials[i].Nodes {
			had[node.Machine] = node.Machine != ""
		}
	}
	described := false
	for _, name := range r.candidates(at, pods) {
		m, words, failed := look(ctx, at, name)
		switch {
		case failed != nil:
			if err == nil {
				err = failed
			}
		case len(r.trials) == 0 || len(differingMachine(r.header.Machine, m)) == 0:
			return m, nil
		case had[words]:
			return r.header.Machine, nil
		case !described:
			first, described = m, true
		}
	}
	if described || at.Kubelets { // what the API server does not reveal stays unknown
		return first, nil
	}
	return first, err
}

// sameBuild rejects observers of another version of the program, which may not understand
// this one's requests. It skips observers that do not respond: later requests report them.
func sameBuild(ctx context.Context, kind string, at *site.Site, build string) error {
	if build == "" {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(at.Observers)) {
		limited, cancel := context.WithTimeout(ctx, lookTime)
		version, err := at.Observers[name].Version(limited)
		cancel()
		switch {
		case jsonhttp.Answered(err, http.StatusNotFound):
			version = "an earlier one, which does not say"
		case err != nil || version == build:
			continue
		}
		hint := "push this program's image with meshtrial lab components images --push REGISTRY/NAME, and name it with --image; or run the study with the program that is in the image"
		if kind == lab.KindLocal {
			hint = "meshtrial lab down, and then the run: it starts a lab of its own version"
		}
		return errs.WithHint(errs.Usage("the roles' image has another version of the program than this: the observer on node %s is %s, this is %s", name, version, build), "%s", hint)
	}
	return nil
}

// candidates returns the names of the nodes that may describe the run's machine: those of its
// pods first, then those of its trials, then others. If there are observers, only nodes with
// an observer qualify.
func (r *run) candidates(at *site.Site, pods []site.Pod) []string {
	var now, before, others []string
	for _, pod := range pods {
		now = append(now, pod.Node)
	}
	for i := range r.trials {
		for _, node := range r.trials[i].Nodes {
			before = append(before, node.Name)
		}
	}
	for name := range at.Observers {
		others = append(others, name)
	}
	var out []string
	seen := map[string]bool{"": true}
	for _, names := range [][]string{now, before, others} {
		for _, name := range slices.Sorted(slices.Values(names)) {
			if _, observed := at.Observers[name]; !seen[name] && (observed || at.Kubelets) {
				seen[name], out = true, append(out, name)
			}
		}
	}
	return out[:min(len(out), mostLooked)]
}

// look returns a node's machine, from its observer, or from the API server as far as known if
// kubelets are used; and its description in trials.
func look(ctx context.Context, at *site.Site, name string) (m record.Machine, words string, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	if !at.Kubelets {
		if m, err = at.Observers[name].Machine(ctx); err != nil {
			return m, "", err
		}
		words = m.Words()
	}
	node, err := at.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil && !at.Kubelets {
		return m, words, nil
	} else if err != nil {
		return m, "", err
	}
	info := node.Status.NodeInfo
	m.ContainerRun = strings.Replace(info.ContainerRuntimeVersion, "://", " ", 1)
	if at.Kubelets {
		m.CPUs, m.MemoryBytes = int(node.Status.Capacity.Cpu().Value()), node.Status.Capacity.Memory().Value()
		m.Kernel, m.OS, m.NodeArch = info.KernelVersion, info.OSImage, info.Architecture
		words = site.Kind(node)
	}
	return m, words, nil
}

// countNodes returns the number of nodes that were examined: those of the pods if kubelets
// are used.
func countNodes(at *site.Site, pods []site.Pod) int {
	if !at.Kubelets {
		return len(at.Observers)
	}
	on := map[string]bool{}
	for _, pod := range pods {
		on[pod.Node] = true
	}
	return len(on)
}
