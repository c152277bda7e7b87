package generate

import (
	"encoding/json"
	"fmt"
	"io"
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
}

// ReadKiali reads a graph of Kiali, best of type workload. Of an edge to a
// workload the hosts are those that its callers asked for, and where Kiali does
// not say them all Services that lead there.
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
	rate, err := strconv.ParseFloat(e.Traffic.Rates[e.Traffic.Protocol], 64)
	count := int64(1)
	if err == nil && rate > 0 && e.Traffic.Protocol != "tcp" { // of TCP it is bytes
		count = max(1, int64(min(rate*float64(max(seconds, 1)), 1<<53)))
	}
	if to.Type == "workload" && !unknown(to.Workload) && !unknown(to.Namespace) && !to.OutOfMesh && to.whole() {
		if err := o.Served(Workload{to.Namespace, to.Workload}, count, Kiali, at); err != nil {
			return err
		}
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
	hosts := to.hosts(domain)
	for _, response := range e.Traffic.Responses {
		for host := range response.Hosts {
			if host = stripPort(host); isHost(host) {
				hosts[[2]string{"", host}] = true
			}
		}
	}
	if len(hosts) == 0 {
		if len(o.notes) == maxNotes {
			return nil
		}
		o.notes = append(o.notes, fmt.Sprintf("Kiali does not say by which host %s called %s; no host is kept for it", caller, Workload{to.Namespace, to.Workload}))
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
