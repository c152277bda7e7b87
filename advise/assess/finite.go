package assess

import (
	"maps"
	"math"
	"slices"
)

// mostMeasured is the largest figure that anything measures of a proxy, in cores, bytes or requests per second. What is
// beyond is no figure, and sums of such would be none either.
const mostMeasured = 1e15

func measured(v float64) bool { return v >= 0 && v <= mostMeasured }

// finite returns the evidence without figures that nobody can have measured: negative ones, infinities, and those that
// are no number. They are unknown.
func (e Evidence) finite() Evidence {
	only := func(v **float64) {
		if *v != nil && !measured(**v) {
			*v = nil
		}
	}
	e.Proxies = slices.Clone(e.Proxies)
	for i := range e.Proxies {
		p := &e.Proxies[i]
		for _, v := range []**float64{&p.Cores, &p.Bytes, &p.Called, &p.Served, &p.Connections, &p.Open} {
			only(v)
		}
		if p.CoresCounted != nil && !measured(*p.CoresCounted) {
			p.CoresCounted = new(math.NaN())
		}
		if p.Called == nil || p.Served == nil || p.Connections == nil {
			p.Called, p.Served, p.Connections = nil, nil, nil
		}
	}
	e.Calls = slices.DeleteFunc(slices.Clone(e.Calls), func(c Call) bool { return !measured(c.PerS) })
	e.Protocols = maps.Clone(e.Protocols)
	maps.DeleteFunc(e.Protocols, func(_ string, v float64) bool { return !measured(v) })
	if only(&e.Open); e.Sizes != nil && (!measured(e.Sizes.Request) || !measured(e.Sizes.Response)) {
		e.Sizes = nil
	}
	return e
}
