package report

import (
	"maps"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/record"
)

// RequestValues returns the single values of a cell whose trials send requests, without
// curves.
func RequestValues(c record.CellSummary) []Value {
	var out []Value
	add := func(name string, v float64, unit string) {
		out = append(out, Value{name, v, math.NaN(), math.NaN(), unit})
	}
	if c.Valid > 0 {
		for _, l := range []struct {
			name string
			record.Latency
		}{{"latency_intended", c.Intended}, {"latency_send", c.Send}} {
			known := func(name string, us float64) {
				if us > 0 { // otherwise too few requests lie beyond it, or they failed
					add(l.name+name, us, "us")
				}
			}
			known("_min", l.Min)
			for _, q := range record.WithMax() {
				known("_"+q.Name(), l.At(q))
			}
			known("_mean", l.Mean)
		}
		add("schedule_lag_p99", c.LagP99US, "us")
		if s := c.Schedule; s != nil {
			add("schedule_distance", s.Distance, "ratio")
			add("schedule_rate", s.AchievedRatio, "ratio")
			if s.EffectiveRequests > 0 {
				add("autocorrelation", s.Autocorrelation, "ratio")
				add("effective_requests", s.EffectiveRequests, "")
			}
		}
	}
	for _, part := range slices.Sorted(maps.Keys(c.CPUPerRequest)) {
		cpu := c.CPUPerRequest[part]
		if !cpu.Whole {
			add("cpu_"+part+"_user", cpu.UserUS, "us/request")
			add("cpu_"+part+"_system", cpu.SystemUS, "us/request")
		}
		add("cpu_"+part, cpu.UserUS+cpu.SystemUS, "us/request")
		if cpu.LowUS < cpu.HighUS { // otherwise there is no interval
			out[len(out)-1].Low, out[len(out)-1].High = cpu.LowUS, cpu.HighUS
		}
	}
	for _, part := range slices.Sorted(maps.Keys(c.MemoryBytes)) {
		add("memory_"+part, float64(c.MemoryBytes[part]), "bytes")
	}
	add("requests", float64(c.Requests), "")
	add("failed", float64(c.Failed), "")
	if c.Unfinished > 0 {
		add("unfinished", float64(c.Unfinished), "")
	}
	add("trials", float64(c.Trials), "")
	return out
}
