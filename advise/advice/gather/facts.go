package gather

import (
	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
)

// facts collects what trials observed about istiod and the machine, over all their windows.
func facts(trials []*record.Trial, out map[*advice.Quantity]float64) {
	var seconds, throttled, busy, idle, idleSeconds, connects, machines, waiting, profiled float64
	var sizes []float64
	var received, had int64
	measured := false
	for _, t := range trials {
		seconds += t.Window.Seconds
		if cpu, ok := t.CPU[record.PartControl]; ok {
			throttled, measured = throttled+cpu.ThrottledS, true
		}
		if t.Pressure != nil {
			busy, machines = busy+t.Pressure.BusyRatio, machines+1
		}
		if t.Control == nil {
			continue
		}
		idle, idleSeconds = idle+t.Control.Idle.TotalS(), idleSeconds+t.Control.IdleSeconds
		for _, n := range t.Control.Reconnects {
			connects += float64(n)
		}
		if n, ok := locks(t.Control.Profiles); ok {
			waiting, profiled = waiting+n, profiled+1
		}
		size := int64(0)
		for _, n := range t.Control.Config {
			size += n
		}
		if size > 0 {
			sizes = append(sizes, float64(size))
		}
		for _, w := range t.Control.Wire {
			received, had = received+w.Bytes, had+w.IdenticalBytes
		}
	}
	if len(sizes) > 0 {
		out[advice.ConfigBytes] = stat.Median(sizes)
	}
	if profiled > 0 {
		out[advice.LocksWaiting] = waiting / profiled
	}
	if received > 0 {
		out[advice.IdenticalShare] = float64(had) / float64(received)
	}
	if seconds <= 0 {
		return
	}
	idleWrites(trials, seconds, out)
	if measured {
		out[advice.Throttled] = throttled / seconds
	}
	if machines > 0 {
		out[advice.MachineBusy] = busy / machines
	}
	if idleSeconds > 0 {
		out[advice.CPUIdle] = idle / idleSeconds
	}
	if trials[0].Control != nil {
		out[advice.Connects] = connects / seconds
		out[advice.ScopedShare] = 0 // only levers create Sidecars in a run's namespaces
		out[advice.Restarts] = 0    // [istiodLived] excludes other trials
	}
}

// idleWrites counts the study's own writes, separating those that change nothing that
// proxies need: a run does not know of other writes.
func idleWrites(trials []*record.Trial, seconds float64, out map[*advice.Quantity]float64) {
	idle, useful := 0.0, 0.0
	for _, t := range trials {
		switch change := t.Cell[controlplane.FactorChange]; {
		case t.Control == nil || change == "" || change == controlplane.ChangeMixed || change == controlplane.ChangeTrace:
			return
		case change == controlplane.ChangeNoOp:
			idle += float64(t.Control.Committed)
		default:
			useful += float64(t.Control.Committed)
		}
	}
	if idle+useful == 0 {
		return
	}
	out[advice.IdleWritesShare], out[advice.IdleWrites], out[advice.UsefulWrites] = idle/(idle+useful), idle/seconds,
		useful/seconds
}

// locks returns the average number of goroutines, over all replicas, that waited for a lock
// while a trial's mutex profiles were taken; ok is false if it has none.
func locks(profiles []record.Profile) (waiting float64, ok bool) {
	for _, p := range profiles {
		if p.Kind == "mutex" && p.Seconds > 0 {
			waiting, ok = waiting+float64(p.Total)/1e9/p.Seconds, true
		}
	}
	return waiting, ok
}
