package report

import (
	"encoding/csv"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/record"
)

// renderCSV writes tidy rows: one value a row, with the cell it belongs to.
// Column "kind" is finding, cell, verdict or noise_floor; factors have a column each,
// and the baseline of a finding has columns against_FACTOR. Numbers have six
// significant digits at most; JSON has them all.
func renderCSV(w io.Writer, f record.Findings) error {
	out := csv.NewWriter(w)
	factors := make([]string, len(f.Factors))
	for i, factor := range f.Factors {
		factors[i] = factor.Factor
	}
	head := []string{"study", "run", "kind", "name"}
	for _, factor := range factors {
		head = append(head, csvText(factor))
	}
	for _, factor := range factors {
		head = append(head, csvText("against_"+factor))
	}
	head = append(head, "value", "low", "high", "unit", "blocks", "trials_valid", "verdict", "warnings")
	if err := out.Write(head); err != nil {
		return err
	}
	row := func(kind, name string, cell, against record.Cell, value, low, high, unit, blocks, valid, verdict, warnings string) error {
		r := []string{csvText(f.Study), csvText(f.Run), kind, csvText(name)}
		for _, factor := range factors {
			r = append(r, csvText(cell[factor]))
		}
		for _, factor := range factors {
			r = append(r, csvText(against[factor]))
		}
		return out.Write(append(r, value, low, high, csvText(unit), blocks, valid, csvText(verdict), csvText(warnings)))
	}
	for _, x := range f.Findings {
		value, low, high := csvNumber(x.Estimate), csvNumber(x.Low), csvNumber(x.High)
		if x.Verdict == record.VerdictInvalid { // it has no figures, and a 0 would be averaged
			value, low, high = "", "", ""
		}
		if err := row("finding", x.Name, x.Cell, x.Against, value, low, high, x.Unit,
			strconv.Itoa(x.Blocks), "", x.Verdict, strings.Join(x.Warnings, "; ")); err != nil {
			return err
		}
	}
	for _, c := range f.Cells {
		for _, v := range cellValues(c) {
			if err := row("cell", v.name, c.Cell, nil, csvNumber(v.value), v.low, v.high, v.unit, "", strconv.Itoa(c.Valid), "", ""); err != nil {
				return err
			}
		}
	}
	for _, c := range judged(f) {
		if err := row("verdict", "verdict", c.Cell, nil, "", "", "", "", "", strconv.Itoa(c.Valid), c.Scenario.Verdict, "expected "+c.Scenario.Expected); err != nil {
			return err
		}
	}
	for _, n := range f.NoiseFloor {
		if err := row("noise_floor", n.Measure, n.Cell, nil, csvNumber(n.Floor), "", "", n.Unit, strconv.Itoa(n.Blocks), "", "", ""); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

type cellValue struct {
	name      string
	value     float64
	low, high string
	unit      string
}

// addLatency adds what is known of a distribution of latencies.
func addLatency(add func(name string, value float64, unit string), name string, l record.Latency) {
	add(name+"_min", l.Min, "us")
	add(name+"_p50", l.P50, "us")
	add(name+"_p90", l.P90, "us")
	add(name+"_p99", l.P99, "us")
	add(name+"_p999", l.P999, "us")
	add(name+"_max", l.Max, "us")
	add(name+"_mean", l.Mean, "us")
}

// cellValues are the single values of a cell, curves left out.
func cellValues(c record.CellSummary) []cellValue {
	if c.Control != nil {
		return controlValues(c)
	}
	var out []cellValue
	add := func(name string, value float64, unit string) {
		out = append(out, cellValue{name: name, value: value, unit: unit})
	}
	if c.Valid > 0 {
		for _, l := range []struct {
			name string
			record.Latency
		}{{"latency_intended", c.Intended}, {"latency_send", c.Send}} {
			addLatency(add, l.name, l.Latency)
		}
		add("schedule_lag_p99", c.LagP99US, "us")
	}
	for _, part := range mapKeys(c.CPUPerRequest) {
		cpu := c.CPUPerRequest[part]
		add("cpu_"+part+"_user", cpu.UserUS, "us/request")
		add("cpu_"+part+"_system", cpu.SystemUS, "us/request")
		out = append(out, cellValue{"cpu_" + part, cpu.UserUS + cpu.SystemUS, csvNumber(cpu.LowUS), csvNumber(cpu.HighUS), "us/request"})
	}
	for _, part := range mapKeys(c.MemoryBytes) {
		add("memory_"+part, float64(c.MemoryBytes[part]), "bytes")
	}
	add("requests", float64(c.Requests), "")
	add("failed", float64(c.Failed), "")
	add("trials", float64(c.Trials), "")
	return out
}

// controlValues are the single values of a control-plane cell.
func controlValues(c record.CellSummary) []cellValue {
	var out []cellValue
	add := func(name string, value float64, unit string) {
		out = append(out, cellValue{name: name, value: value, unit: unit})
	}
	k := c.Control
	if k.Pairs > 0 {
		for _, l := range []struct {
			name string
			record.Latency
		}{{"convergence", k.Convergence}, {"received", k.Received}, {"applied", appliedBy(k)}} {
			if l.Latency == (record.Latency{}) {
				continue // all proxies are real, or none is
			}
			addLatency(add, l.name, l.Latency)
		}
		add("simulator_lag_p99", k.SimulatorLagP99US, "us")
	}
	for _, s := range k.Stages {
		add("stage_"+s.Name, s.MeanUS, "us")
	}
	if len(k.Stages) > 0 {
		add("stage_residual", k.ResidualUS, "us")
	}
	for _, part := range mapKeys(k.Parts) {
		add("cpu_"+part, k.Parts[part], "cores")
	}
	for _, kind := range mapKeys(k.Pushes) {
		add("pushes_"+kind, k.Pushes[kind], "pushes")
	}
	for _, kind := range mapKeys(k.Wire) {
		w := k.Wire[kind]
		add("wire_"+kind+"_bytes", float64(w.Bytes), "bytes")
		add("wire_"+kind+"_identical", float64(w.IdenticalBytes), "bytes")
		add("wire_"+kind+"_responses", float64(w.Responses), "")
		add("wire_"+kind+"_resources", float64(w.Resources), "")
		add("wire_"+kind+"_nacks", float64(w.Nacks), "")
	}
	for _, kind := range mapKeys(k.ConfigBytes) {
		add("config_"+kind, float64(k.ConfigBytes[kind]), "bytes")
	}
	for _, kind := range mapKeys(k.ScopeConfigBytes) {
		add("scope_config_"+kind, float64(k.ScopeConfigBytes[kind]), "bytes")
	}
	if k.JoinUS > 0 {
		add("join_time", k.JoinUS, "us")
	}
	for _, kind := range mapKeys(k.JoinBytes) {
		add("join_bytes_"+kind, float64(k.JoinBytes[kind]), "bytes")
	}
	add("changes", float64(k.Committed), "")
	add("failed", float64(k.Failed), "")
	add("pairs", float64(k.Pairs), "")
	add("missed", float64(k.Missed), "")
	add("trials", float64(c.Trials), "")
	return out
}

// csvNumber has six significant digits at most, and no exponent that a
// spreadsheet would misread for common sizes.
func csvNumber(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return ""
	}
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	if m := magnitude(v); m < 15 && m > -6 {
		s := strconv.FormatFloat(v, 'f', max(0, 5-m), 64)
		if strings.Contains(s, ".") {
			s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
		}
		return s
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}
