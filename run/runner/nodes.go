package runner

import (
	"context"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
)

// mostLooked limits how many nodes are examined for one like those of an earlier attempt,
// lookTime how long a node or a role may take to answer, and atOnce how many requests are open
// at a time.
const (
	mostLooked = 100
	lookTime   = 15 * time.Second
	atOnce     = 50
)

// answers calls ask for every name, at most atOnce at a time and each for at most lookTime, and
// yields the answers in the order of the names. If the caller stops early, it cancels the
// calls that are still open and waits for them to return.
func answers[T any](ctx context.Context, names []string, ask func(ctx context.Context, name string) T) iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var open sync.WaitGroup
		defer open.Wait()
		defer cancel()
		slots := make(chan struct{}, atOnce)
		all := make([]chan T, len(names))
		for i := range all {
			all[i] = make(chan T, 1)
		}
		open.Go(func() {
			for i, name := range names {
				slots <- struct{}{}
				open.Go(func() {
					defer func() { <-slots }()
					limited, cancel := context.WithTimeout(ctx, lookTime)
					defer cancel()
					all[i] <- ask(limited, name)
				})
			}
		})
		for i, name := range names {
			if !yield(name, <-all[i]) {
				return
			}
		}
	}
}

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
	for _, is := range answers(ctx, r.candidates(at, pods), func(ctx context.Context, name string) looked { return look(ctx, at, name) }) {
		switch {
		case is.err != nil:
			if err == nil {
				err = is.err
			}
		case len(r.trials) == 0 || len(differingMachine(r.header.Machine, is.machine)) == 0:
			return is.machine, nil
		case had[is.words]:
			return r.header.Machine, nil
		case !described:
			first, described = is.machine, true
		}
	}
	if described || at.Kubelets { // what the API server does not reveal stays unknown
		return first, nil
	}
	return first, err
}

// sameBuild rejects roles of another version of the program, which may not understand this
// one's requests. It skips roles that do not respond: later requests report them.
func sameBuild(ctx context.Context, kind string, at *site.Site, build string) error {
	if build == "" {
		return nil
	}
	roles := map[string]site.Versioned{}
	for node, observer := range at.Observers {
		roles["the observer on node "+node] = observer
	}
	for name, load := range at.Loads {
		roles["load pod "+name] = load
	}
	ask := func(ctx context.Context, name string) string {
		version, err := roles[name].Version(ctx)
		if jsonhttp.Answered(err, http.StatusNotFound) {
			return "an earlier one, which does not say"
		}
		return version // "": no answer
	}
	for name, version := range answers(ctx, slices.Sorted(maps.Keys(roles)), ask) {
		if version == "" || version == build {
			continue
		}
		hint := "push this program's image (meshtrial lab components images --push REGISTRY/NAME) and name it with --image; or run the study with the program that is in the image"
		if kind == lab.KindLocal {
			hint = "meshtrial lab down, then run again: the run starts a lab of its own version"
		}
		return errs.WithHint(errs.Usage("the roles' image contains a different version of the program: %s is %s, this is %s", name, version, build), "%s", hint)
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

// looked is a node's machine.
type looked struct {
	machine record.Machine
	words   string // its description in trials
	err     error
}

// look returns a node's machine, from its observer, or from the API server as far as known if
// kubelets are used.
func look(ctx context.Context, at *site.Site, name string) (out looked) {
	m := &out.machine
	if !at.Kubelets {
		if *m, out.err = at.Observers[name].Machine(ctx); out.err != nil {
			return out
		}
		out.words = m.Words()
	}
	node, err := at.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		if at.Kubelets {
			out.err = err
		}
		return out
	}
	info := node.Status.NodeInfo
	m.ContainerRun = strings.Replace(info.ContainerRuntimeVersion, "://", " ", 1)
	if at.Kubelets {
		m.CPUs, m.MemoryBytes = int(node.Status.Capacity.Cpu().Value()), node.Status.Capacity.Memory().Value()
		m.Kernel, m.OS, m.NodeArch = info.KernelVersion, info.OSImage, info.Architecture
		out.words = site.Kind(node)
	}
	return out
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
