package generate

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strconv"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// maxNotes bounds what is said of a graph's edges.
const maxNotes = 100

// maxKiali bounds a graph of Kiali, bytes.
const maxKiali = 64 << 20

// kialiGraph is what /api/namespaces/graph answers
// (kiali/kiali, graph/config/common).
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
	ServiceEntry json.RawMessage `json:"isServiceEntry"` // an object; once a text
	OutOfMesh    bool            `json:"isOutOfMesh"`
	// Of nodes of namespaces that were not asked for, or may not be seen, a graph
	// has the edges from and to those that were.
	Outside      bool `json:"isOutside"`
	Inaccessible bool `json:"isInaccessible"`
	Waypoint     bool `json:"isWaypoint"`
}

func (n kialiNode) whole() bool { return !n.Outside && !n.Inaccessible }

type kialiEdge struct {
	Source  string `json:"source"`
	Target  string `json:"target"`
	Traffic struct {
		Protocol  string            `json:"protocol"`
		Rates     map[string]string `json:"rates"` // by name, a second
		Responses map[string]struct {
			Hosts map[string]string `json:"hosts"`
		} `json:"responses"`
	} `json:"traffic"`
	// Waypoint is there for an edge to or from a waypoint, which carries what
	// others call (graph/telemetry/istio/appender/ambient.go). An edge "to" one
	// has what the waypoint carries to the caller as its FromEdge; any other is
	// "from".
	Waypoint *struct {
		Direction string     `json:"direction"`
		FromEdge  *kialiEdge `json:"fromEdge"`
	} `json:"waypoint"`
}

// Directions of edges of waypoints.
const (
	toWaypoint   = "to"
	fromWaypoint = "from"
)

// direction is that of an edge of a waypoint, "" for another edge. Older Kialis
// only mark the nodes.
func (e kialiEdge) direction(from, to kialiNode) string {
	switch {
	case e.Waypoint != nil && e.Waypoint.Direction == fromWaypoint, from.Waypoint:
		return fromWaypoint
	case e.Waypoint != nil && e.Waypoint.Direction == toWaypoint, to.Waypoint:
		return toWaypoint
	}
	return ""
}

// ReadKiali reads a graph of Kiali, best of type workload. Of an edge to a
// workload the hosts are those that its callers asked for, and all Services
// that lead there. Of an edge to a waypoint they are those that the caller
// asked for, and the waypoint's Services only where Kiali does not say. An edge
// from a waypoint says that its target served: who called has an edge to it.
func (o *Observations) ReadKiali(r io.Reader, domain string) error {
	var g kialiGraph
	data, err := io.ReadAll(io.LimitReader(r, maxKiali+1))
	switch {
	case err != nil:
		return err
	case len(data) > maxKiali:
		err = fmt.Errorf("longer than %d MB", maxKiali>>20)
	default:
		if err = json.Unmarshal(data, &g); err == nil && g.Elements == nil {
			err = fmt.Errorf(`it has no "elements"`)
		}
	}
	if err != nil {
		return errs.WithHint(errs.Usage("graph of Kiali: %v", err),
			"take one with: curl 'http://KIALI/kiali/api/namespaces/graph?graphType=workload&duration=1440m&namespaces=A,B'")
	}
	at := Span{}
	if g.Timestamp > 0 {
		until := time.Unix(g.Timestamp, 0)
		at = Between(until.Add(-time.Duration(max(g.Duration, 0))*time.Second), until)
	}
	nodes := map[string]kialiNode{}
	for _, n := range g.Elements.Nodes {
		nodes[n.Data.ID] = n.Data
	}
	for i, e := range g.Elements.Edges {
		from, known := nodes[e.Data.Source]
		to, also := nodes[e.Data.Target]
		if !known || !also {
			return errs.Usage("graph of Kiali: elements.edges[%d]: from node %.60q to %.60q, which are not both in elements.nodes", i, e.Data.Source, e.Data.Target)
		}
		if err := o.kialiEdge(from, to, e.Data, g.Duration, at, domain); err != nil {
			return err
		}
	}
	return nil
}

func (o *Observations) kialiEdge(from, to kialiNode, e kialiEdge, seconds int64, at Span, domain string) error {
	if e.Traffic.Protocol == "tcp" {
		o.tcp |= Kiali
	}
	count, direction := e.count(seconds), e.direction(from, to)
	if direction == toWaypoint && e.Waypoint != nil && e.Waypoint.FromEdge != nil {
		if err := o.kialiServed(from, e.Waypoint.FromEdge.count(seconds), at); err != nil {
			return err
		}
	}
	if direction != toWaypoint {
		if err := o.kialiServed(to, count, at); err != nil {
			return err
		}
	}
	if direction == fromWaypoint {
		return nil
	}
	if from.Type == "service" || unknown(from.Namespace) || from.OutOfMesh {
		return nil // the edge to the service says who calls; outside no Sidecar holds
	}
	caller := Workload{from.Namespace, from.Workload}
	if unknown(caller.Name) {
		caller.Name = ""
	}
	if passthrough[to.Service] {
		return o.Left(caller, others, count, Kiali, at)
	}
	hosts := map[[2]string]bool{}
	for _, response := range e.Traffic.Responses {
		for host := range response.Hosts {
			if host = stripPort(host); isHost(host) {
				hosts[[2]string{"", host}] = true
			}
		}
	}
	if direction != toWaypoint || len(hosts) == 0 {
		maps.Copy(hosts, to.hosts(domain))
	}
	if len(hosts) == 0 {
		if len(o.notes) == maxNotes {
			return nil
		}
		o.notes = append(o.notes, Note{Code: NoteKiali, Workload: caller, To: Workload{to.Namespace, to.Workload}})
		return nil
	}
	call := o.Call
	if !from.whole() {
		call = o.Heard
	}
	for host := range hosts {
		if err := call(Edge{From: caller, Namespace: host[0], Host: host[1], Count: count, Sources: Kiali, Span: at}); err != nil {
			return err
		}
	}
	return nil
}

// count is how many requests an edge stands for; 1 where nobody counts them, as of TCP, whose
// rates are bytes.
func (e kialiEdge) count(seconds int64) int64 {
	rate, err := strconv.ParseFloat(e.Traffic.Rates[e.Traffic.Protocol], 64)
	if err == nil && rate > 0 && e.Traffic.Protocol != "tcp" {
		return max(1, int64(min(rate*float64(max(seconds, 1)), 1<<53)))
	}
	return 1
}

// kialiServed notes that a node served, if it is a workload of the mesh.
func (o *Observations) kialiServed(n kialiNode, count int64, at Span) error {
	if n.Type != "workload" || unknown(n.Workload) || unknown(n.Namespace) || n.OutOfMesh || !n.whole() {
		return nil
	}
	return o.Served(Workload{n.Namespace, n.Workload}, count, Kiali, at)
}

// hosts are by which a node is called, with their namespaces.
func (n kialiNode) hosts(domain string) map[[2]string]bool {
	out := map[[2]string]bool{}
	var entry struct {
		Hosts     []string `json:"hosts"`
		Namespace string   `json:"namespace"`
	}
	if len(n.ServiceEntry) > 0 && json.Unmarshal(n.ServiceEntry, &entry) == nil {
		for _, host := range entry.Hosts {
			out[[2]string{entry.Namespace, host}] = true
		}
		if len(out) > 0 {
			return out
		}
	}
	add := func(name, namespace string) {
		switch {
		case unknown(name):
		case len(n.ServiceEntry) > 0 || unknown(namespace):
			out[[2]string{"", name}] = true
		default:
			out[[2]string{namespace, serviceHost(name, namespace, domain)}] = true
		}
	}
	if n.Type == "service" {
		add(n.Service, n.Namespace)
	}
	for _, s := range n.DestServices {
		add(s.Name, s.Namespace)
	}
	return out
}
