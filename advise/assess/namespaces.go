package assess

import (
	"cmp"
	"slices"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat/sizing"
)

// Namespace is a namespace with sidecars: what they take, and what its requests need.
type Namespace struct {
	Name     string `json:"namespace"`
	Sidecars int    `json:"sidecars"`
	Nodes    int    `json:"nodes"` // that its sidecars are on
	// Requests are those of its sidecars' containers.
	Requests Resources `json:"requests"`
	// Used is what they use; nil unless all were measured.
	Used *Resources `json:"used,omitempty"`
	// Called and Served are requests per second; nil unless the counters of all its sidecars were read.
	Called *float64 `json:"called_per_s,omitempty"`
	Served *float64 `json:"served_per_s,omitempty"`
	// L7 is the share of the requests to its hosts that need a proxy that reads them; nil if unknown.
	L7 *float64 `json:"l7_ratio,omitempty"`
	// Needs are the objects that decide by what is in the requests to its hosts.
	Needs []string `json:"needs,omitempty"`
}

// passes are requests per second, each of which passes two sidecars: one where it leaves and one where it enters.
func (n Namespace) passes() float64 { return (*n.Called + *n.Served) / 2 }

func (a *Assessment) namespaces(e Evidence) {
	by, nodes := map[string]*Namespace{}, map[string]map[string]bool{}
	measured, read := map[string]int{}, map[string]int{}
	for _, p := range e.Proxies {
		if p.Kind != Sidecar {
			continue
		}
		n := by[p.Namespace]
		if n == nil {
			n = &Namespace{Name: p.Namespace, Used: &Resources{}, Called: new(float64), Served: new(float64)}
			by[p.Namespace], nodes[p.Namespace] = n, map[string]bool{}
		}
		n.Sidecars++
		n.Requests = n.Requests.plus(p.Requests)
		nodes[p.Namespace][p.Node] = true
		if p.Cores != nil && p.Bytes != nil {
			measured[p.Namespace]++
			*n.Used = n.Used.plus(Resources{*p.Cores, *p.Bytes})
		}
		if p.Called != nil {
			read[p.Namespace]++
			*n.Called, *n.Served = *n.Called+*p.Called, *n.Served+*p.Served
		}
	}
	for name, n := range by {
		if delete(nodes[name], ""); measured[name] < n.Sidecars {
			n.Used = nil
		}
		if read[name] < n.Sidecars {
			n.Called, n.Served = nil, nil
		}
		n.Nodes = len(nodes[name])
		n.L7, n.Needs = a.l7Of(e, name)
		a.Namespaces = append(a.Namespaces, *n)
	}
	slices.SortFunc(a.Namespaces, func(x, y Namespace) int {
		return cmp.Or(cmp.Compare(y.Sidecars, x.Sidecars), cmp.Compare(x.Name, y.Name))
	})
}

// l7Of is the share of the requests to a namespace's hosts that need a proxy that reads them, and what needs it.
// Where all hosts are alike it follows from configuration, or else from the calls of all sidecars.
func (a *Assessment) l7Of(e Evidence, namespace string) (share *float64, needs []string) {
	needing := map[string]bool{}
	hosts, need := 0, 0
	for _, h := range e.Hosts {
		if h.Namespace != namespace {
			continue
		}
		hosts++
		if needing[h.Name] = len(h.Needs) > 0; needing[h.Name] {
			need++
		}
		needs = append(needs, h.Needs...)
	}
	slices.Sort(needs)
	needs = slices.Compact(needs)
	switch {
	case e.Hosts == nil || len(e.Unread) > 0:
		return nil, needs
	case need == 0 || need == hosts:
		return new(float64(need) / float64(max(1, hosts))), needs
	case !a.Traffic.whole():
		return nil, needs
	}
	all, l7 := 0.0, 0.0
	for _, c := range a.Traffic.Calls {
		if is, known := needing[c.Host]; known && !c.TCP {
			all += c.PerS
			if is {
				l7 += c.PerS
			}
		}
	}
	if all == 0 {
		return nil, needs
	}
	return new(l7 / all), needs
}

// Lack is what is unknown of a namespace that would have to be known to size it.
type Lack string

// What may be unknown.
const (
	LackRequests Lack = "requests"
	LackL7       Lack = "l7"
	LackNodes    Lack = "nodes"
)

// waypointsEach is the number of waypoints of a namespace that needs any: two for availability.
const waypointsEach = 2

// Stated is a namespace as ways of carrying requests are sized for, if it moved alone: ztunnels on each node with
// a pod of it, and waypoints of its own.
func (n Namespace) Stated() (m sizing.Mesh, lack Lack) {
	switch {
	case n.Called == nil:
		return m, LackRequests
	case n.L7 == nil:
		return m, LackL7
	case n.Nodes == 0:
		return m, LackNodes
	}
	m = sizing.Mesh{Pods: float64(n.Sidecars), Nodes: float64(n.Nodes), RPS: n.passes()}
	if *n.L7 > 0 && m.RPS > 0 {
		m.L7 = min(1, *n.L7**n.Served/m.RPS) // a waypoint is passed where requests enter
	}
	if m.L7 > 0 {
		m.Waypoints = waypointsEach
	}
	return m, ""
}

// Moves are the namespaces to size: those with most sidecars whose requests are known.
func (a *Assessment) Moves() (out []Namespace) {
	for _, n := range a.Namespaces {
		if _, lack := n.Stated(); lack == "" && len(out) < mostMoves {
			out = append(out, n)
		}
	}
	return out
}

// mostMoves limits how many namespaces are sized.
const mostMoves = 20

// Move is what it would change to carry a namespace's requests by ambient.
type Move struct {
	Namespace string
	Way       string    // of ambient
	Uses      []MoveUse // CPU, then memory
	// Border is where CPU changes its order along the requests of each pod; nil if it was not looked for.
	Border *record.SizedBorder
}

// MoveUse is a resource of both ways.
type MoveUse struct {
	Of        string // record.SizedCPU or another
	Now, Then record.Priced
	// Less is the way that uses less; "" if the interval of the difference includes zero.
	Less string
}

// MoveOf finds sidecars and the ambient way that does what the namespace needs in its sizing: without waypoints where
// no request needs them.
func MoveOf(z NamespaceSizing, needsL7 bool) (m Move, found bool) {
	var sidecars, ambient *record.SizedWay
	for i := range z.Sizing.Ways {
		w := &z.Sizing.Ways[i]
		switch {
		case w.Has(record.PlaceSidecar):
			sidecars = w
		case w.Has(record.PlaceWaypoint) == needsL7:
			ambient = w
		}
	}
	if sidecars == nil || ambient == nil {
		return m, false
	}
	m = Move{Namespace: z.Namespace, Way: ambient.Name}
	between := func(names []string) bool {
		return slices.Contains(names, sidecars.Name) && slices.Contains(names, ambient.Name)
	}
	for _, of := range []string{record.SizedCPU, record.SizedMemory} {
		now, measured := sidecars.Use(of)
		then, both := ambient.Use(of)
		if !measured || !both {
			continue
		}
		u := MoveUse{Of: of, Now: now.Total, Then: then.Total}
		for _, d := range z.Sizing.Differences {
			if d.Of == of && between(d.Between) {
				u.Less = d.Less
			}
		}
		m.Uses = append(m.Uses, u)
	}
	for i, b := range z.Sizing.Borders {
		if b.Of == record.SizedCPU && b.Along == sizing.AlongRate && between(b.Between) {
			m.Border = &z.Sizing.Borders[i]
		}
	}
	return m, len(m.Uses) > 0
}
