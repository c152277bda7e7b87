package trial

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/population"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/site"
	"github.com/meshtrial/meshtrial/study"
)

// proxies are all proxies that may need a change: simulated ones first, then
// the real ones.
func (t *controlTrial) proxies() []population.Identity {
	out := append([]population.Identity(nil), t.ids...)
	for _, p := range t.c.reals {
		out = append(out, population.Identity{Type: population.Sidecar, Name: p.Name, Namespace: p.Namespace, Workload: site.RoleReal})
	}
	return out
}

// witness asks who had which change until now, or until the window's end if it
// has one: what comes later is in none of its costs either.
func (t *controlTrial) witness(ctx context.Context) ([]record.Event, toll, error) {
	proxies := t.proxies()
	seeing := visibility(t.levers)
	w := witnesses{
		proxies: len(proxies), simulated: len(t.ids), ahead: t.ahead, bad: t.misbehaving(),
		needs: func(change int, proxy int32) bool { return t.plan.Changes[change].Needs(proxies[proxy], seeing) },
	}
	if len(t.ids) > 0 {
		var err error
		if w.markers, err = t.c.fleet.Sightings(ctx, 0); err != nil {
			return nil, toll{}, fmt.Errorf("sightings of the simulated sidecars: %w", err)
		}
	}
	w.envoys = t.envoys.sightings(int32(len(t.ids)))
	w.end = time.Now()
	if t.out.Window.Seconds > 0 {
		w.end = windowEnd(t.out.Window)
	}
	events, sum := account(t.driven, w)
	return events, sum, nil
}

// windowEnd is when a window ended.
func windowEnd(w record.Window) time.Time {
	return w.Start.Add(time.Duration(w.Seconds * float64(time.Second)))
}

// misbehaving are the simulated proxies that misbehave on purpose, by their
// index.
func (t *controlTrial) misbehaving() map[int32]bool {
	out := map[int32]bool{}
	if l := t.levels.Clients; l != study.ClientsGood && l != study.NotApplicable {
		for _, i := range badProxies(len(t.ids), float64(t.c.study.Control.BadShare)) {
			out[int32(i)] = true
		}
	}
	return out
}

// collect turns what was read into the trial's record, and judges it.
func (t *controlTrial) collect(ctx context.Context) []record.Event {
	events, sum, c := t.seen, t.toll, t.out.Control
	c.Proxies, c.Gateways, c.RealProxies = t.levels.Proxies, t.levels.Gateways, len(t.c.reals)
	c.Changes, c.Committed = sum.planned, sum.committed
	c.StaleProxySeconds = sum.stale
	c.Wire = map[string]record.Wire{}
	if len(t.ids) > 0 {
		c.Wire = t.accountAfter.WireSince(t.accountBefore)
		c.Config = t.accountAfter.Config
		c.ScopeConfig = t.accountAfter.NamespaceConfig[t.levers.Namespaces[0]]
		c.Simulator = since(t.accountAfter.CPU, t.accountBefore.CPU)
		c.SimulatorLag = t.accountAfter.Lag
		c.Reconnects = map[string]int64{}
		for why, n := range t.accountAfter.Reconnects {
			if rise := n - t.accountBefore.Reconnects[why]; rise > 0 {
				c.Reconnects[why] = rise
			}
		}
	}
	metricsErr := observe.FillControl(c, t.before.scrape, t.after.scrape)
	t.costAPIServer(c)
	t.costs()
	t.stages(ctx, events)
	if err := t.recordConvergence(events); err != nil {
		t.warn("true convergence was not recorded as series: %v", err)
	}
	t.judge(ctx, events, sum, metricsErr)
	return events
}

func since(after, before record.CPU) record.CPU {
	return record.CPU{UserS: after.UserS - before.UserS, SystemS: after.SystemS - before.SystemS, ThrottledS: after.ThrottledS - before.ThrottledS}
}

// costs turns the snapshots into CPU, memory and pressure.
func (t *controlTrial) costs() {
	out := &t.out
	out.CPU, out.Memory = map[string]record.CPU{}, map[string]record.Memory{}
	for node, targets := range t.targets {
		before, after := t.windowStart[node], t.windowEnd[node]
		for _, target := range targets {
			part := partIn(target.Name)
			sample := after.Targets[target.Name]
			cpu, err := sample.Since(before.Targets[target.Name])
			if err != nil {
				out.Validity.Checks = append(out.Validity.Checks, record.Check{Name: "cpu-" + part, Detail: err.Error()})
				continue
			}
			out.CPU[part] = out.CPU[part].Plus(cpu)
			if sample.Memory != nil {
				memory, sum := sample.Memory.Record(), out.Memory[part]
				out.Memory[part] = record.Memory{PSSBytes: sum.PSSBytes + memory.PSSBytes,
					CgroupBytes: sum.CgroupBytes + memory.CgroupBytes, Processes: sum.Processes + memory.Processes}
			}
			if idle, err := t.idleEnd[node].Targets[target.Name].Since(t.idleStart[node].Targets[target.Name]); t.idleEnd != nil && part == record.PartControl && err == nil {
				out.Control.Idle = out.Control.Idle.Plus(idle)
				out.Control.IdleSeconds = float64(t.idleEnd[node].EndNS-t.idleStart[node].EndNS) / 1e9
			}
		}
		if node == t.c.role.Node {
			cpu, pressure, err := after.Machine.Since(before.Machine)
			if err == nil {
				out.CPU[record.PartMachine], out.Pressure = cpu, &pressure
			}
		}
	}
}

// partIn is the part that a target belongs to: those of several pods are
// numbered.
func partIn(target string) string {
	part, _, _ := strings.Cut(target, "-")
	return part
}
