package report

import (
	"maps"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/record"
)

// Single returns a value without an interval.
func Single(name string, value float64, unit string) Value {
	return Value{Name: name, Value: value, Low: math.NaN(), High: math.NaN(), Unit: unit}
}

// AddLatency adds the known values of a latency distribution.
func AddLatency(add func(name string, value float64, unit string), name string, l record.Latency) {
	add(name+"_min", l.Min, "us")
	for _, q := range record.WithMax() {
		add(name+"_"+q.Name(), l.At(q), "us")
	}
	add(name+"_mean", l.Mean, "us")
}

// RequestValues returns the single values of a cell whose trials send requests, without
// curves.
func RequestValues(c record.CellSummary) []Value {
	var out []Value
	add := func(name string, value float64, unit string) { out = append(out, Single(name, value, unit)) }
	if c.Valid > 0 {
		for _, l := range []struct {
			name string
			record.Latency
		}{{"latency_intended", c.Intended}, {"latency_send", c.Send}} {
			AddLatency(func(name string, value float64, unit string) {
				if value > 0 { // otherwise too few requests lie beyond it, or they failed
					add(name, value, unit)
				}
			}, l.name, l.Latency)
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
		total := Single("cpu_"+part, cpu.UserUS+cpu.SystemUS, "us/request")
		if cpu.LowUS < cpu.HighUS { // otherwise there is no interval
			total.Low, total.High = cpu.LowUS, cpu.HighUS
		}
		out = append(out, total)
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
