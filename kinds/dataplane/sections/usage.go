package sections

import (
	"maps"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

func cpuTable(f record.Findings) report.Table {
	parts := slices.Concat(record.ProxyParts(), []string{record.PartWorker, record.PartGenerator, record.PartMachine, record.PartUnattributed, record.PartControl})
	keep := map[string]int{record.PartWorker: 4, record.PartGenerator: 3, record.PartMachine: 6, record.PartUnattributed: 5, record.PartControl: 1}
	for _, proxy := range record.ProxyParts() {
		keep[proxy] = 9
	}
	t := report.Table{Title: "CPU per request, µs: user + kernel (95% interval of the sum)", Columns: report.FactorColumns(f)}
	shown := report.WithRest(parts, f.Cells, func(c record.CellSummary) []string { return slices.Sorted(maps.Keys(c.CPUPerRequest)) })
	for _, part := range shown {
		t.Columns = append(t.Columns, right(report.PartWords(part), max(1, keep[part])))
	}
	if len(shown) == 0 {
		return t
	}
	s := report.Scale{Div: 1, Unit: "µs"}
	for _, c := range f.Cells {
		row := report.FactorTexts(f, c.Cell)
		for _, part := range shown {
			cpu, ok := c.CPUPerRequest[part]
			if cpu.Whole {
				t.Title = "CPU per request, µs: user and kernel together (95% interval)"
			}
			if !ok {
				row = append(row, report.Dash)
				continue
			}
			_, span := s.Parts(cpu.UserUS+cpu.SystemUS, cpu.LowUS, cpu.HighUS)
			d := report.Decimals(cpu.UserUS+cpu.SystemUS, cpu.LowUS, cpu.HighUS)
			sum := report.Fixed(cpu.UserUS, d) + " + " + report.Fixed(cpu.SystemUS, d)
			if cpu.Whole {
				sum = report.Fixed(cpu.UserUS, d)
			}
			if cpu.HighUS > cpu.LowUS { // a single block has no interval
				sum += " (" + span + ")"
			}
			row = append(row, report.Text{S: sum})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func memoryTable(f record.Findings) report.Table {
	parts := slices.Concat(record.ProxyParts(), []string{record.PartWorker, record.PartGenerator, record.PartControl})
	shown := report.WithRest(parts, f.Cells, func(c record.CellSummary) []string { return slices.Sorted(maps.Keys(c.MemoryBytes)) })
	t := report.Table{Title: "Memory, MB (proportional set size)"}
	if f.Observed == record.ObservedKubelet {
		t.Title = "Memory, MB (working set)"
	}
	rows := f
	rows.Factors = memoryFactors(f)
	t.Columns = report.FactorColumns(rows)
	if len(shown) == 0 {
		return t
	}
	var factors []string
	for _, l := range rows.Factors {
		factors = append(factors, l.Factor)
	}
	for i, part := range shown {
		t.Columns = append(t.Columns, right(report.PartWords(part), 9-min(i, 8)))
	}
	s := report.Scale{Div: 1e6, Unit: "MB"}
	type span struct{ low, high float64 }
	var groups []record.Cell
	spans := map[string]map[string]span{}
	for _, c := range f.Cells {
		group := report.Pick(c.Cell, factors)
		key := group.Key()
		if spans[key] == nil {
			groups, spans[key] = append(groups, group), map[string]span{}
		}
		for part, bytes := range c.MemoryBytes {
			v := float64(bytes)
			old, ok := spans[key][part]
			if !ok {
				old = span{v, v}
			}
			spans[key][part] = span{math.Min(old.low, v), math.Max(old.high, v)}
		}
	}
	for _, group := range groups {
		row := report.FactorTexts(rows, group)
		for _, part := range shown {
			v, ok := spans[group.Key()][part]
			switch low, high := s.Plain(v.low), s.Plain(v.high); {
			case !ok:
				row = append(row, report.Dash)
			case low == high:
				row = append(row, report.Text{S: low})
			default:
				row = append(row, report.Text{S: low + "–" + high})
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// memoryFactors returns the factors in the rows of the memory table: all of a small study, and for
// a large one those in which cells differ from the baseline (a range then covers the others).
func memoryFactors(f record.Findings) []record.FactorLevels {
	compared := report.LayoutOf(f).Compared
	if len(f.Cells) <= 12 || len(compared) == 0 {
		return f.Factors
	}
	return slices.DeleteFunc(slices.Clone(f.Factors), func(l record.FactorLevels) bool { return !slices.Contains(compared, l.Factor) })
}
