package generate

import (
	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/drive/graph"
)

// passthrough are the clusters of what the mesh does not know.
var passthrough = map[string]bool{"PassthroughCluster": true, "BlackHoleCluster": true}

// AddCounters adds what a sidecar's counters say ([scope.ReadCalls]): which of
// its outbound clusters were called, whether it served, and whether it called
// what the mesh does not know. They count since the proxy started, without
// times, and for endpoints that are still there.
func (o *Observations) AddCounters(w Workload, calls map[string]int64) error {
	o.tcp |= Counters
	s, err := o.watch(w, Counters, Span{})
	if err != nil {
		return err
	}
	s.counted++
	for name, n := range calls {
		if passthrough[name] {
			if err := o.Left(w, others, n, Counters, Span{}); err != nil {
				return err
			}
			continue
		}
		direction, _, _, host, ok := scope.SplitCluster(name)
		if !ok || n == 0 {
			continue
		}
		var err error
		if direction == "outbound" {
			err = o.Call(Edge{From: w, Host: host, Count: n, Sources: Counters})
		} else {
			err = o.Served(w, n, Counters, Span{})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// AddGraph adds a service graph whose services run in one namespace, each a
// workload of its name behind a Service of its name. What is declared is kept
// whether or not anybody saw it.
func (o *Observations) AddGraph(g graph.Graph, namespace, domain string) error {
	o.tcp |= Declared // it says all there is
	for _, s := range g.Services {
		from := Workload{namespace, s.Name}
		if err := o.Served(from, 1, Declared, Span{}); err != nil {
			return err
		}
		for _, c := range s.Calls {
			if err := o.Call(Edge{From: from, Host: serviceHost(c.To, namespace, domain), Namespace: namespace, Sources: Declared}); err != nil {
				return err
			}
		}
	}
	return nil
}

// serviceHost is the name by which the mesh knows a Service.
func serviceHost(name, namespace, domain string) string {
	return name + "." + namespace + ".svc." + domain
}
