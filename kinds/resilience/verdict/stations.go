package verdict

import (
	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/drive/graph"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// LedgerOptions returns the stations that a cell's requests pass, if they log as side says: see
// [record.Scenario]. proxied selects services, and the clients, whose proxies write logs.
func LedgerOptions(c *resilience.Scenario, cell record.Cell, side string, proxied func(service string) bool) ledger.Options {
	o := ledger.Options{Client: fault.LoadService, Entry: c.Entry, Services: map[string]ledger.Station{}}
	if side == record.LedgerClients {
		return o
	}
	o.ClientProxy, o.InboundOnly = side != record.LedgerInbound && proxied(fault.LoadService), side == record.LedgerInbound
	o.Carried, o.Answering = side == record.LedgerEnds, side == record.LedgerEnds && study.Waypoint(cell)
	o.Services = stations(c.Graph, proxied)
	return o
}

// stations returns the services of a graph as the ledger's stations.
func stations(g graph.Graph, proxied func(service string) bool) map[string]ledger.Station {
	callers := g.Callers()
	out := make(map[string]ledger.Station, len(g.Services))
	for _, one := range g.Services {
		logs := proxied(one.Name)
		station := ledger.Station{Sidecar: logs, Gateway: one.Gateway && logs, CalledBy: callers[one.Name]}
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
