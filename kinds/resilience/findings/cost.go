package findings

import (
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/drive/graph"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat/money"
	"github.com/meshtrial/meshtrial/study"
)

// proxyRoles selects services for findings about proxies. A proxy's cost depends on its traffic: a
// client's only sends, that of a service in the middle of a graph receives and sends, and that of a
// last service only receives.
var proxyRoles = map[string]func(c *resilience.Scenario, one graph.Service) bool{
	record.PartClientProxy: func(_ *resilience.Scenario, one graph.Service) bool { return one.Name == fault.LoadService },
	record.PartServerProxy: func(_ *resilience.Scenario, one graph.Service) bool {
		return one.Name != fault.LoadService && !one.Gateway
	},
	resilience.PartIngress: func(_ *resilience.Scenario, one graph.Service) bool { return one.Gateway },
	resilience.PartEntryProxy: func(c *resilience.Scenario, one graph.Service) bool {
		return !one.Gateway && one.Name == c.Entry && len(one.Calls) > 0
	},
	resilience.PartLastProxy: func(_ *resilience.Scenario, one graph.Service) bool {
		return one.Name != fault.LoadService && len(one.Calls) == 0
	},
}

// proxyUse returns the CPU time of all proxies of a trial in seconds, the number of passes (one at
// each end of a call that has a sidecar), and the number of calls that passed any proxy. The mesh's
// attempts count as the request that they belong to. Node proxies are counted likewise: on the way
// out of a pod in the mesh and on the way into one. A waypoint counts once per call.
func proxyUse(s *trialScenario) (seconds, passes, calls float64) {
	carried := map[string]bool{}
	g := resilience.Of(s.study).Graph
	if study.Ambient(s.trial.Cell) {
		carried[fault.LoadService] = true
		for _, one := range g.Services {
			carried[one.Name] = one.Sidecar
		}
	}
	for _, p := range s.trial.Scenario.Pods {
		carried[p.Service] = carried[p.Service] || p.Sidecar
	}
	flow, err := g.Flow(graph.Load{Entry: resilience.Of(s.study).Entry, RPS: 1})
	if err != nil {
		return math.NaN(), math.NaN(), math.NaN()
	}
	call := func(from, to string, each float64) {
		way := []string{from, to}
		if study.Waypoint(s.trial.Cell) {
			way = append(way, to)
		}
		if one, _ := g.Service(from); one.Gateway { // a request passes it once, which its arrival counts
			way = way[1:]
		}
		way = slices.DeleteFunc(way, func(service string) bool { return !carried[service] })
		if made := each * float64(s.trial.Scenario.Scheduled); len(way) > 0 {
			passes, calls = passes+made*float64(len(way)), calls+made
		}
	}
	call(fault.LoadService, resilience.Of(s.study).Entry, 1)
	for _, e := range flow.Edges {
		call(e.From, e.To, e.Calls)
	}
	node, read := s.trial.Scenario.CPU[record.PartNode]
	waypoint, passed := s.trial.Scenario.CPU[record.PartWaypoint]
	seconds, read = node.TotalS()+waypoint.TotalS(), read && (passed || !study.Waypoint(s.trial.Cell))
	if !study.Ambient(s.trial.Cell) {
		read = true
		for service, has := range carried {
			cpu, known := s.trial.Scenario.CPU[service+proxySuffix]
			seconds += cpu.TotalS()
			read = read && (known || !has)
		}
	}
	if passes == 0 || !read { // no proxies, or some were not read
		return math.NaN(), math.NaN(), math.NaN()
	}
	return seconds, passes, calls
}

// scenarioMoney returns the needs and costs of the proxies of a stated mesh, if each request took
// as much of them as in a trial. Idle use of the proxies is included in proportion to the trial's
// own requests. For shared proxies, a call takes what it took in the trial, whatever the mesh
// states as proxies per hop.
func scenarioMoney(s *study.Study) []analysis.Measure {
	m := s.PricedMesh()
	if m == nil || !s.Measured(study.MeasureCPU) {
		return nil
	}
	priced := s.Measured(study.MeasureMemory) && m.Proxies > 0 && m.GBMonth > 0
	price := func(t *trialScenario) money.Bill {
		seconds, passes, calls := proxyUse(t)
		use := money.Use{CPUPerHop: m.PerHop(money.Exact(seconds / passes))}
		memory := perProxy(t, func(*resilience.Scenario, graph.Service) bool { return true }, memoryOf, leftAtEnd)
		if t.trial.Scenario.NodeProxies > 0 {
			use.CPUPerHop, memory = money.Exact(seconds/calls), math.NaN()
		}
		if priced {
			use.MemoryBytes = money.Exact(memory)
		}
		return m.Price(use)
	}
	var out []analysis.Measure
	add := func(name string, line func(money.Bill) money.Value) {
		out = append(out, analysis.MeasureOf(name, ofScenario(func(t *trialScenario) float64 {
			return line(price(t)).Estimate
		})).Warning(func(o *analysis.Observations, cell int) []note.Note {
			out := sharedProxies(o, cell)
			if len(out) > 0 && priced {
				out = append(out, noteNoPrice.Of())
			}
			return out
		}))
	}
	add(study.FindingMoneyCores, func(b money.Bill) money.Value { return b.Cores })
	if priced {
		add(study.FindingMoneyCPU, func(b money.Bill) money.Value { return b.CPU })
		add(study.FindingMoneyMemory, func(b money.Bill) money.Value { return b.Memory })
	}
	add(study.FindingMoneyMonth, func(b money.Bill) money.Value { return b.Total })
	return out
}
