package trial

import (
	"context"
	"fmt"
	"slices"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
)

// risesOf holds counters by part: absolute values or increases.
type risesOf map[string]map[string]float64

// since returns the increase of counters.
func (r risesOf) since(before risesOf) risesOf {
	out := risesOf{}
	for part, all := range r {
		out[part] = risen(all, before[part])
	}
	return out
}

// risen returns the increase of each counter.
func risen(now, before map[string]float64) map[string]float64 {
	out := make(map[string]float64, len(now))
	for name, v := range now {
		out[name] = v - before[name]
	}
	return out
}

// tally holds what one shared proxy has counted since its process began.
type tally struct {
	part, node string
	process    string // the pod's UID and the IDs of the proxy's containers
	counters   map[string]float64
}

type tallies []tally

// ask reads the counters of proxies, by part.
func (t *scenarioTrial) ask(ctx context.Context, pods map[string][]site.Pod) (tallies, error) {
	var out tallies
	for part, list := range pods {
		p, _ := record.ProxyOf(part)
		proxies := t.proxiesAt(p.Place)
		for _, pod := range list {
			if pod.Proxy == nil {
				return nil, fmt.Errorf("pod %s of node %s has no readable proxy", pod.Name, pod.Node)
			}
			stats, err := pod.Proxy.Stats(ctx, proxies.Stats)
			if err != nil {
				return nil, fmt.Errorf("counters of %s on node %s: %w", pod.Name, pod.Node, err)
			}
			process := pod.UID
			for _, name := range proxies.Containers {
				process += " " + pod.Containers[name]
			}
			out = append(out, tally{part, pod.Node, process, stats.Counters})
		}
	}
	return out, nil
}

// counters returns the counters of all proxies, summed by part.
func (t *scenarioTrial) counters(ctx context.Context, pods map[string][]site.Pod) (risesOf, error) {
	all, err := t.ask(ctx, pods)
	return all.together(), err
}

// together sums all proxies of each part.
func (all tallies) together() risesOf {
	out := risesOf{}
	for _, one := range all {
		if out[one.part] == nil {
			out[one.part] = map[string]float64{}
		}
		for name, v := range one.counters {
			out[one.part][name] += v
		}
	}
	return out
}

// byProcess returns the counters by process.
func (all tallies) byProcess() map[string]map[string]float64 {
	out := map[string]map[string]float64{}
	for _, one := range all {
		out[one.process] = one.counters
	}
	return out
}

// since subtracts what the same process had counted before. A process that began since, even in the
// same pod, had counted nothing.
func (all tallies) since(before map[string]map[string]float64) tallies {
	out := make(tallies, len(all))
	for i, one := range all {
		one.counters = risen(one.counters, before[one.process])
		out[i] = one
	}
	return out
}

// nodes returns the nodes of node proxies, each once.
func (all tallies) nodes() []string {
	var out []string
	for _, one := range all {
		if one.part == record.PartNode && !slices.Contains(out, one.node) {
			out = append(out, one.node)
		}
	}
	return out
}

// on returns the tallies of a node.
func (all tallies) on(node string) tallies {
	var out tallies
	for _, one := range all {
		if one.node == node {
			out = append(out, one)
		}
	}
	return out
}
