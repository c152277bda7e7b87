package assess

import (
	"cmp"
	"slices"
)

// Traffic is what passed the sidecars that were read.
type Traffic struct {
	Read     int `json:"sidecars_read"`
	Sidecars int `json:"sidecars"`
	// WindowS is the time over which they were counted, on the mean over sidecars.
	WindowS float64 `json:"window_s"`
	// Called and Served are requests per second that left and entered their pods, Connections those of
	// TCP opened.
	Called      float64 `json:"called_per_s"`
	Served      float64 `json:"served_per_s"`
	Connections float64 `json:"tcp_connections_per_s"`
	// Routed is the share of the requests to hosts that a route decides on by what is in requests; nil
	// without requests.
	Routed *float64 `json:"routed_ratio,omitempty"`
	Calls  []Call   `json:"calls"` // most first
}

func (a *Assessment) traffic(e Evidence) {
	if e.Enrolled > 0 {
		a.add(NoAmbient.Of(e.Enrolled))
	}
	t := Traffic{WindowS: e.TrafficS, Calls: slices.Clone(e.Calls)}
	for _, p := range e.Proxies {
		if p.Kind != Sidecar {
			continue
		}
		t.Sidecars++
		if p.Called == nil {
			continue
		}
		t.Read++
		t.Called, t.Served, t.Connections = t.Called+*p.Called, t.Served+*p.Served, t.Connections+*p.Connections
	}
	switch {
	case t.Sidecars == 0:
		return
	case t.Read == 0:
		a.add(NoCounters.Of())
		return
	case t.Read < t.Sidecars:
		a.add(SomeProxies.Of(t.Sidecars-t.Read, t.Sidecars))
	}
	if n := a.Mesh.Count(Gateway) + a.Mesh.Count(Waypoint); n > 0 {
		a.add(NoGateways.Of(n))
	}
	a.add(NoPayloads.Of())
	slices.SortStableFunc(t.Calls, func(a, b Call) int { return cmp.Compare(b.PerS, a.PerS) })
	all, routed := 0.0, 0.0
	for _, c := range t.Calls {
		if !c.TCP {
			all += c.PerS
			if c.Routed {
				routed += c.PerS
			}
		}
	}
	if all > 0 {
		share := routed / all
		t.Routed = &share
		if n := e.Objects["AuthorizationPolicy"]; n > 0 {
			a.add(NoPolicies.Of(n))
		}
	}
	a.Traffic = &t
}

// whole reports whether all sidecars were read.
func (t *Traffic) whole() bool { return t != nil && t.Read == t.Sidecars }
