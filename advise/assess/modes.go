package assess

import (
	"slices"

	"github.com/meshtrial/meshtrial/stat/sizing"
)

func (a *Assessment) modes(e Evidence) {
	whole := func(m Modes) bool { return len(m.Sizing.Ways) > 0 }
	if a.Mesh.Count(Sidecar)+a.Mesh.Enrolled == 0 || slices.ContainsFunc(e.Modes, whole) {
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
	case t.Called+t.Served == 0:
		return m, "any request"
	case a.Mesh.Nodes == 0:
		return m, "on how many nodes its pods are"
	}
	m = sizing.Mesh{Pods: float64(a.Mesh.Count(Sidecar)), Nodes: float64(a.Mesh.Nodes), RPS: (t.Called + t.Served) / 2, Waypoints: float64(a.Mesh.Count(Waypoint))}
	switch {
	case t.Routed != nil:
		m.L7 = *t.Routed
	case NoPolicies.In(a.Unknown):
		return m, "which of its requests need L7"
	}
	if m.Waypoints == 0 && m.L7 > 0 {
		m.Waypoints = waypointsEach * float64(max(1, a.namespacesOfL7()))
	}
	return m, ""
}

// namespacesOfL7 counts the namespaces to whose hosts requests go that need a waypoint.
func (a *Assessment) namespacesOfL7() int {
	in := map[string]bool{}
	for _, h := range a.Traffic.Hosts {
		if len(h.Needs) > 0 && h.Namespace != "" {
			in[h.Namespace] = true
		}
	}
	return len(in)
}
