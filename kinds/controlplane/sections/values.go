package sections

import (
	"maps"
	"slices"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// controlValues returns the single values of a control-plane cell.
func controlValues(c record.CellSummary) []report.Value {
	var out []report.Value
	add := func(name string, value float64, unit string) { out = append(out, report.Single(name, value, unit)) }
	k := c.Control
	if k.Pairs > 0 {
		for _, l := range []struct {
			name string
			record.Latency
		}{{"convergence", k.Convergence}, {"received", k.Received}, {"applied", appliedBy(k)}} {
			if l.Latency == (record.Latency{}) {
				continue // all proxies are real, or none
			}
			report.AddLatency(func(name string, value float64, unit string) {
				if value > 0 { // else there are too few pairs
					add(name, value, unit)
				}
			}, l.name, l.Latency)
		}
		add("simulator_lag_p99", k.SimulatorLagP99US, "us")
	}
	for _, s := range k.Stages {
		add("stage_"+s.Name, s.MeanUS, "us")
	}
	if len(k.Stages) > 0 {
		add("stage_residual", k.ResidualUS, "us")
	}
	for _, part := range slices.Sorted(maps.Keys(k.Parts)) {
		add("cpu_"+part, k.Parts[part], "cores")
	}
	for _, kind := range slices.Sorted(maps.Keys(k.Pushes)) {
		add("pushes_"+kind, k.Pushes[kind], "pushes")
	}
	for _, kind := range slices.Sorted(maps.Keys(k.Wire)) {
		w := k.Wire[kind]
		add("wire_"+kind+"_bytes", float64(w.Bytes), "bytes")
		add("wire_"+kind+"_identical", float64(w.IdenticalBytes), "bytes")
		add("wire_"+kind+"_responses", float64(w.Responses), "")
		add("wire_"+kind+"_resources", float64(w.Resources), "")
		add("wire_"+kind+"_nacks", float64(w.Nacks), "")
	}
	for _, kind := range slices.Sorted(maps.Keys(k.ConfigBytes)) {
		add("config_"+kind, float64(k.ConfigBytes[kind]), "bytes")
	}
	for _, kind := range slices.Sorted(maps.Keys(k.ScopeConfigBytes)) {
		add("scope_config_"+kind, float64(k.ScopeConfigBytes[kind]), "bytes")
	}
	if k.JoinUS > 0 {
		add("join_time", k.JoinUS, "us")
	}
	for _, kind := range slices.Sorted(maps.Keys(k.JoinBytes)) {
		add("join_bytes_"+kind, float64(k.JoinBytes[kind]), "bytes")
	}
	add("changes", float64(k.Committed), "")
	add("failed", float64(k.Failed), "")
	add("pairs", float64(k.Pairs), "")
	add("missed", float64(k.Missed), "")
	add("trials", float64(c.Trials), "")
	return out
}
