package gather

import (
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// facts are what trials saw of istiod and of the machine, over all their windows.
func facts(trials []*record.Trial, out map[string]float64) {
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
		out["config_bytes"] = stat.Median(sizes)
	}
	if profiled > 0 {
		out["locks_waiting"] = waiting / profiled
	}
	if received > 0 {
		out["identical_share"] = float64(had) / float64(received)
	}
	if seconds <= 0 {
		return
	}
	idleWrites(trials, seconds, out)
	if measured {
		out["throttled"] = throttled / seconds
	}
	if machines > 0 {
		out["machine_busy"] = busy / machines
	}
	if idleSeconds > 0 {
		out["cpu_idle"] = idle / idleSeconds
	}
	if trials[0].Control != nil {
		out["connects_per_s"] = connects / seconds
		out["scoped_share"] = 0 // whose namespaces have the Sidecars of levers alone
		out["restarts"] = 0     // or the trial would not be here: see [lived]
	}
}

// idleWrites tells what a study wrote without changing anything that proxies need. Its
// own changes are all that is known of writes in a run.
func idleWrites(trials []*record.Trial, seconds float64, out map[string]float64) {
	idle, useful := 0.0, 0.0
	for _, t := range trials {
		switch change := t.Cell[study.FactorChange]; {
		case t.Control == nil || change == "" || change == study.ChangeMixed || change == study.ChangeTrace:
			return
		case change == study.ChangeNoOp:
			idle += float64(t.Control.Committed)
		default:
			useful += float64(t.Control.Committed)
		}
	}
	if idle+useful == 0 {
		return
	}
	out["idle_writes_share"], out["idle_writes_per_s"], out["useful_writes_per_s"] = idle/(idle+useful), idle/seconds, useful/seconds
}

// locks returns how many goroutines of all replicas waited for a lock on average while a
// trial's mutex profiles were taken; ok is false if it has none.
func locks(profiles []record.Profile) (waiting float64, ok bool) {
	for _, p := range profiles {
		if p.Kind == "mutex" && p.Seconds > 0 {
			waiting, ok = waiting+float64(p.Total)/1e9/p.Seconds, true
		}
	}
	return waiting, ok
}
