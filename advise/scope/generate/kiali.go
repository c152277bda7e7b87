package generate

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// maxKiali is the maximum size of a Kiali graph, in bytes, and maxKialiSeconds the longest time
// that one may cover: a year.
const (
	maxKiali        = 64 << 20
	maxKialiSeconds = 365 * 24 * 3600
)

// kialiGraph is the response of /api/namespaces/graph (kiali/kiali, graph/config/common).
type kialiGraph struct {
	Timestamp int64 `json:"timestamp"` // seconds since 1970
	Duration  int64 `json:"duration"`  // seconds
	Elements  *struct {
		Nodes []struct {
			Data kialiNode `json:"data"`
		} `json:"nodes"`
		Edges []struct {
			Data kialiEdge `json:"data"`
		} `json:"edges"`
	} `json:"elements"`
}

type kialiNode struct {
	ID           string `json:"id"`
	Type         string `json:"nodeType"`
	Namespace    string `json:"namespace"`
	Workload     string `json:"workload"`
	Service      string `json:"service"`
	DestServices []struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"destServices"`
	ServiceEntry json.RawMessage `json:"isServiceEntry"` // an object; a string in old versions
	OutOfMesh    bool            `json:"isOutOfMesh"`
	// A node of a namespace that was not requested, or may not be viewed, has only its edges to and
	// from nodes of requested namespaces.
	Outside      bool `json:"isOutside"`
	Inaccessible bool `json:"isInaccessible"`
	Waypoint     bool `json:"isWaypoint"`
}

type kialiEdge struct {
	Source  string `json:"source"`
	Target  string `json:"target"`
	Traffic struct {
		Protocol  string            `json:"protocol"`
		Rates     map[string]string `json:"rates"` // per second, by protocol
		Responses map[string]struct {
			Hosts map[string]string `json:"hosts"`
		} `json:"responses"`
	} `json:"traffic"`
	// Waypoint marks an edge to or from a waypoint, which forwards others' calls
	// (graph/telemetry/istio/appender/ambient.go). In an edge to a waypoint, FromEdge describes
	// what it forwards to the caller.
	Waypoint *struct {
		Direction string    `json:"direction"`
		FromEdge  *struct{} `json:"fromEdge"`
	} `json:"waypoint"`
}

// waypoint reports whether an edge leads to a waypoint or comes from one. Older versions of Kiali
// mark only the nodes.
func (e kialiEdge) waypoint(from, to kialiNode) (into, out bool) {
	if w := e.Waypoint; w != nil && w.Direction != "" {
		return w.Direction == "to", w.Direction == "from"
	}
	return to.Waypoint && !from.Waypoint, from.Waypoint
}

// ReadKiali reads a graph from Kiali, preferably of type workload. An edge to a workload keeps the
// hosts that its callers requested and all Services that lead there. An edge to a waypoint keeps
// the hosts requested, and all of the waypoint's Services only if Kiali names no host. An edge from
// a waypoint shows that its target served; the caller has a separate edge to the waypoint.
func (o *Observations) ReadKiali(r io.Reader, domain string) error {
	data, err := io.ReadAll(io.LimitReader(r, maxKiali+1))
	if err != nil {
		return err
	}
	var g kialiGraph
	if len(data) > maxKiali {
		err = fmt.Errorf("longer than %d MB", maxKiali>>20)
	} else if err = json.Unmarshal(data, &g); err == nil && g.Elements == nil {
		err = fmt.Errorf(`it has no "elements"`)
	}
	if err != nil {
		return errs.WithHint(errs.Usage("graph of Kiali: %v", err),
			"take one with: curl 'http://KIALI/kiali/api/namespaces/graph?graphType=workload&duration=1440m&namespaces=A,B'")
	}
	var at Span
	if until := time.Unix(g.Timestamp, 0); g.Timestamp > 0 {
		if until.After(time.Now().Add(24 * time.Hour)) {
			return errs.Usage("graph of Kiali: timestamp: %d is in the future: want seconds since 1970", g.Timestamp)
		}
		at = At(until.Add(-time.Duration(min(max(g.Duration, 0), maxKialiSeconds))*time.Second), until)
	}
	nodes := map[string]kialiNode{}
	for _, n := range g.Elements.Nodes {
		nodes[n.Data.ID] = n.Data
	}
	for i, e := range g.Elements.Edges {
		from, known := nodes[e.Data.Source]
		to, also := nodes[e.Data.Target]
		if !known || !also {
			return errs.Usage("graph of Kiali: elements.edges[%d]: from node %.60q to %.60q, which are not both in elements.nodes",
				i, e.Data.Source, e.Data.Target)
		}
		o.kialiEdge(from, to, e.Data, g.Duration, at, domain)
	}
	return nil
}

func (o *Observations) kialiEdge(from, to kialiNode, e kialiEdge, seconds int64, at Span, domain string) {
	if e.Traffic.Protocol == "tcp" {
		o.tcp |= Kiali
	}
	into, out := e.waypoint(from, to)
	if into && e.Waypoint != nil && e.Waypoint.FromEdge != nil {
		o.kialiServed(from, at)
	}
	if !into {
		o.kialiServed(to, at)
	}
	if out || from.Type == "service" || from.OutOfMesh || from.unknown(from.Namespace) {
		return // another edge has the caller, or no Sidecar governs it
	}
	caller := Workload{from.Namespace, from.Workload}
	if from.unknown(caller.Name) {
		caller.Name = ""
	}
	whole := !from.Outside && !from.Inaccessible
	if passthrough[to.Service] {
		if whole {
			o.left(caller, others, Kiali, at)
		}
		return
	}
	hosts := map[Host]bool{}
	for _, response := range e.Traffic.Responses {
		for host := range response.Hosts {
			if host = stripPort(host); isHost(host) {
				hosts[Host{Name: host}] = true
			}
		}
	}
	if !into || len(hosts) == 0 {
		to.addHosts(hosts, domain)
	}
	if len(hosts) == 0 { // what it called is unknown, so it must not be narrowed
		o.watch(caller, Kiali, at).unnamed = true
	}
	for host := range hosts {
		edge := Edge{From: caller, Namespace: host.Namespace, Host: host.Name, Count: e.count(seconds), Sources: Kiali, Span: at}
		if whole {
			o.Call(edge)
		} else if s := o.call(edge); s != nil { // its other calls are not in the graph
			s.remote |= Kiali
		}
	}
}

// count returns the number of requests of an edge; 1 for TCP, whose rates are in bytes.
func (e kialiEdge) count(seconds int64) int64 {
	rate, err := strconv.ParseFloat(e.Traffic.Rates[e.Traffic.Protocol], 64)
	if err == nil && rate > 0 && e.Traffic.Protocol != "tcp" {
		return max(1, int64(min(rate*float64(max(seconds, 1)), 1<<53)))
	}
	return 1
}

// kialiServed records that a node served, if it is a workload whose calls the graph shows.
func (o *Observations) kialiServed(n kialiNode, at Span) {
	if n.Type == "workload" && !n.unknown(n.Workload) && !n.unknown(n.Namespace) && !n.OutOfMesh && !n.Outside && !n.Inaccessible {
		o.Served(Workload{n.Namespace, n.Workload}, Kiali, at)
	}
}

// unknown reports whether Kiali has no name for something.
func (kialiNode) unknown(name string) bool { return name == "" || name == "unknown" }

// addHosts adds the hosts by which a node is called, with their namespaces.
func (n kialiNode) addHosts(to map[Host]bool, domain string) {
	var entry struct {
		Hosts     []string `json:"hosts"`
		Namespace string   `json:"namespace"`
	}
	external := len(n.ServiceEntry) > 0
	if external && json.Unmarshal(n.ServiceEntry, &entry) == nil && len(entry.Hosts) > 0 {
		for _, host := range entry.Hosts {
			to[Host{entry.Namespace, host}] = true
		}
		return
	}
	add := func(name, namespace string) {
		switch {
		case n.unknown(name):
		case external || n.unknown(namespace):
			to[Host{Name: name}] = true
		default:
			to[Host{namespace, serviceHost(name, namespace, domain)}] = true
		}
	}
	if n.Type == "service" {
		add(n.Service, n.Namespace)
	}
	for _, s := range n.DestServices {
		add(s.Name, s.Namespace)
	}
}
