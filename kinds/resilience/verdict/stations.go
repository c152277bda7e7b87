package verdict

import (
	"github.com/meshtrial/meshtrial/drive/graph"
	"github.com/meshtrial/meshtrial/observe/ledger"
)

// Stations returns the services of a graph as the ledger's stations; sidecar selects those whose
// proxies write logs.
func Stations(g graph.Graph, sidecar func(graph.Service) bool) map[string]ledger.Station {
	callers := g.Callers()
	out := make(map[string]ledger.Station, len(g.Services))
	for _, one := range g.Services {
		station := ledger.Station{Sidecar: sidecar(one), Gateway: one.Gateway && sidecar(one), CalledBy: callers[one.Name]}
		for _, c := range one.Calls {
			call := ledger.Call{To: c.To}
			if c.Probability >= 1 {
				call.Least = c.Times
			}
			station.Calls = append(station.Calls, call)
		}
		out[one.Name] = station
	}
	return out
}
