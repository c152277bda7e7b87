package assess

import (
	"cmp"
	"slices"
	"strings"
)

// Traffic is what passed the sidecars that were read.
type Traffic struct {
	Read     int `json:"sidecars_read"`
	Sidecars int `json:"sidecars"`
	// WindowS is the time over which they were counted, on the mean over sidecars.
	WindowS float64 `json:"window_s"`
	// Metered is how many of those that were read Prometheus counted for.
	Metered int `json:"by_prometheus,omitempty"`
	// Logged is how many of those that were read access logs tell of.
	Logged int `json:"by_access_logs,omitempty"`
	// Called and Served are requests per second that left and entered their pods, Connections those of
	// TCP opened.
	Called      float64 `json:"called_per_s"`
	Served      float64 `json:"served_per_s"`
	Connections float64 `json:"tcp_connections_per_s"`
	// Routed is the share of the requests to hosts of which something decides by what is in requests, or
	// balances them ([Host.Needs]); nil without requests, or where not all that may decide was listed.
	Routed *float64      `json:"routed_ratio,omitempty"`
	Calls  []Call        `json:"calls"`           // most first
	Hosts  []HostTraffic `json:"hosts,omitempty"` // those that are called, most requests first
	// Through are requests per second through gateways and waypoints, of those that Prometheus counts.
	Through []Through `json:"through,omitempty"`
	Sizes   *Sizes    `json:"sizes,omitempty"`
	// Protocols are the requests of those that Prometheus counts, per second.
	Protocols map[string]float64 `json:"protocols,omitempty"`
	Open      *float64           `json:"tcp_connections,omitempty"`
	// Carrying is how many connections carry the requests that leave a pod, on the mean over those that send any.
	Carrying *float64 `json:"http_connections_each,omitempty"`
}

// Through are the requests through proxies of a kind.
type Through struct {
	Kind  Kind    `json:"kind"`
	Count int     `json:"count"`
	Read  int     `json:"read"`
	PerS  float64 `json:"per_s"`
}

// HostTraffic is what goes to a host.
type HostTraffic struct {
	Host
	// PerS are requests per second, or connections where TCP says so.
	PerS    float64 `json:"per_s"`
	TCP     bool    `json:"tcp,omitempty"`
	Callers int     `json:"callers"` // workloads
}

func (a *Assessment) traffic(e Evidence) {
	if e.Enrolled > 0 {
		a.add(NoAmbient.Of(e.Enrolled))
	}
	t := Traffic{WindowS: e.TrafficS, Calls: slices.Clone(e.Calls), Sizes: e.Sizes, Protocols: e.Protocols, Open: e.Open}
	unread := 0
	for _, kind := range []Kind{Gateway, Waypoint} {
		all := through(e.Proxies, kind)
		unread += all.Count - all.Read
		if all.Read > 0 {
			t.Through = append(t.Through, all)
		}
	}
	for _, p := range e.Proxies {
		if p.Kind != Sidecar {
			continue
		}
		t.Sidecars++
		if p.Called == nil {
			continue
		}
		t.Read++
		switch p.RequestsBy {
		case ByPrometheus:
			t.Metered++
		case ByLogs:
			t.Logged++
		}
		t.Called, t.Served, t.Connections = t.Called+*p.Called, t.Served+*p.Served, t.Connections+*p.Connections
	}
	switch {
	case t.Sidecars == 0 && len(t.Through)+len(t.Calls) == 0:
		return
	case t.Read == 0 && t.Sidecars > 0:
		if a.add(NoCounters.Of()); len(t.Calls) == 0 {
			return
		}
	case t.Read < t.Sidecars && e.Offline:
		a.add(SomeCounted.Of(t.Sidecars-t.Read, t.Sidecars))
	case t.Read < t.Sidecars:
		a.add(SomeProxies.Of(t.Sidecars-t.Read, t.Sidecars))
	}
	if unread > 0 {
		a.add(NoGateways.Of(unread))
	}
	if t.Sizes = cmp.Or(t.Sizes, e.AccessLogs.sizes()); t.Sizes == nil {
		a.add(NoPayloads.Of())
	}
	if t.Carrying = carrying(e.Proxies); t.Carrying == nil {
		a.add(NoHTTPOpen.Of())
	}
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
	switch {
	case all > 0 && len(e.Unread) > 0:
		a.add(NoPolicies.Of(strings.Join(e.Unread, ", ")))
	case all > 0:
		t.Routed = new(routed / all)
	}
	t.Hosts = called(t.Calls, e.Hosts)
	a.Traffic = &t
}

// carrying is the mean number of connections of sidecars that send requests; nil if no sidecar told.
func carrying(proxies []Proxy) *float64 {
	n, open := 0, 0.0
	for _, p := range proxies {
		if p.Kind == Sidecar && p.Open != nil && *p.Open > 0 {
			n, open = n+1, open+*p.Open
		}
	}
	if n == 0 {
		return nil
	}
	return new(open / float64(n))
}

// through adds up the requests through proxies of a kind.
func through(proxies []Proxy, kind Kind) Through {
	t := Through{Kind: kind}
	for _, p := range proxies {
		if p.Kind != kind {
			continue
		}
		t.Count++
		if p.Called != nil {
			t.Read++
			t.PerS += max(*p.Called, *p.Served) // a waypoint reports what it serves, a gateway what it calls
		}
	}
	return t
}

// called sums calls by host.
func called(calls []Call, hosts []Host) (out []HostTraffic) {
	type key struct {
		host string
		tcp  bool
	}
	at, known := map[key]int{}, map[string]Host{}
	for _, h := range hosts {
		known[h.Name] = h
	}
	for _, c := range calls {
		k := key{c.Host, c.TCP}
		i, seen := at[k]
		if !seen {
			i = len(out)
			at[k] = i
			h := known[c.Host]
			h.Name = c.Host
			out = append(out, HostTraffic{Host: h, TCP: c.TCP})
		}
		out[i].PerS += c.PerS
		out[i].Callers++
	}
	slices.SortStableFunc(out, func(a, b HostTraffic) int { return cmp.Compare(b.PerS, a.PerS) })
	return out
}

// whole reports whether all sidecars were read.
func (t *Traffic) whole() bool { return t != nil && t.Sidecars > 0 && t.Read == t.Sidecars }
