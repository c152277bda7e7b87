package assess

import "github.com/meshtrial/meshtrial/stat/sizing"

func (a *Assessment) modes(e Evidence) {
	if a.Mesh.Count(Sidecar)+a.Mesh.Enrolled == 0 || len(e.Modes) > 0 {
		return
	}
	if e.Runs == 0 {
		a.add(NoUnitCosts.Of())
	}
	if _, lacks := a.Stated(); lacks != "" {
		a.add(NoStated.Of(lacks))
	}
}

// Stated is this mesh as ways of carrying requests are sized for; lacks names what of it is
// unknown, "" for nothing.
func (a *Assessment) Stated() (m sizing.Mesh, lacks string) {
	t := a.Traffic
	switch {
	case a.Mesh.Enrolled > 0:
		return m, "what the pods request that ztunnels carry"
	case !t.whole():
		return m, "what all sidecars request"
	case t.Called == 0:
		return m, "any request"
	case a.Mesh.Nodes == 0:
		return m, "on how many nodes its pods are"
	}
	m = sizing.Mesh{Pods: float64(a.Mesh.Count(Sidecar)), Nodes: float64(a.Mesh.Nodes), RPS: t.Called, Waypoints: float64(a.Mesh.Count(Waypoint))}
	if t.Routed != nil {
		m.L7 = *t.Routed
	}
	if m.Waypoints == 0 && m.L7 > 0 {
		m.Waypoints = 2 * float64(a.routedNamespaces()) // one for each namespace that needs it, twice for availability
	}
	return m, ""
}

// routedNamespaces are those of the callers of routed hosts.
func (a *Assessment) routedNamespaces() int {
	in := map[string]bool{}
	for _, c := range a.Traffic.Calls {
		if c.Routed {
			in[c.From.Namespace] = true
		}
	}
	return len(in)
}
