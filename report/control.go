package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/meshmark/meshmark/record"
)

// ofControl says whether findings are those of a control-plane study.
func ofControl(f record.Findings) bool {
	return slices.ContainsFunc(f.Cells, func(c record.CellSummary) bool { return c.Control != nil })
}

// controlTables are the tables of a control-plane study before those that
// every study has.
func controlTables(f record.Findings) []table {
	return []table{convergenceTable(f), leversTable(f), waterfallTable(f), hiddenTable(f), amplificationTable(f), wireTable(f), configTable(f), controlCostTable(f)}
}

// plainFindings indexes a cell's own values by name and cell.
func plainFindings(f record.Findings) map[string]record.Finding {
	out := map[string]record.Finding{}
	for _, x := range f.Findings {
		if x.Against == nil {
			out[x.Name+"\x00"+x.Cell.Key()] = x
		}
	}
	return out
}

// valueColumn is a column that shows a finding of each cell.
type valueColumn struct {
	head, name string
	keep       int
}

// valueTable has a row a cell and a column a finding, each column in one
// unit, which its head names. Columns that no cell has are left out; so are
// all rows if none is left.
func valueTable(f record.Findings, title string, columns []valueColumn) table {
	t := table{Title: title, Columns: factorColumns(f)}
	plain := plainFindings(f)
	var shown []valueColumn
	var scales []scale
	for _, c := range columns {
		largest, unit := math.Inf(-1), ""
		for _, cell := range f.Cells {
			if x, ok := plain[c.name+"\x00"+cell.Cell.Key()]; ok {
				unit = x.Unit
				largest = math.Max(largest, math.Abs(x.Estimate))
			}
		}
		if unit == "" {
			continue
		}
		s := scaleFor(unit, largest)
		head := c.head
		if named := strings.TrimSuffix(s.Unit, " a change"); named != "" && named != unit {
			head += ", " + named
		} else if unit == "cores" {
			head += ", cores"
		}
		shown, scales = append(shown, c), append(scales, s)
		t.Columns = append(t.Columns, column{head, true, c.keep})
	}
	if len(shown) == 0 {
		return t
	}
	for _, cell := range f.Cells {
		row := factorTexts(f, cell.Cell)
		for i, c := range shown {
			x, ok := plain[c.name+"\x00"+cell.Cell.Key()]
			switch {
			case !ok:
				row = append(row, text{"–", styleDim})
			case x.Verdict != record.VerdictInvalid && x.Low == x.High:
				row = append(row, text{S: scales[i].plain(x.Estimate)})
			default:
				row = append(row, figure(f, x, scales[i]))
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// convergenceTable has a row a cell: how long a change takes to the proxies,
// and what the cell adds to its baseline.
func convergenceTable(f record.Findings) table {
	t := valueTable(f, "Convergence by cell: from a change's commit to the proxies' acknowledgement (95% interval)", []valueColumn{
		{"p50", "convergence_p50", 9}, {"p99", "convergence_p99", 8}, {"p99.9", "convergence_p999", 1}, {"max", "convergence_max", 4},
		{"first proxy", "convergence_first", 3}, {"last proxy", "convergence_last", 6}, {"in force in Envoy p50", "applied_p50", 3}, {"p99", "applied_p99", 1},
	})
	if len(t.Rows) == 0 {
		return t
	}
	t.Columns = append(t.Columns, column{"changes", true, 2}, column{"never seen", true, 7}, column{"valid", true, 5})
	for i, c := range f.Cells {
		never := text{S: "–", Style: styleDim}
		changes := never
		if s := c.Control; s != nil {
			changes, never = text{S: count(s.Committed)}, text{S: "none"}
			if s.Missed > 0 {
				never = text{count(s.Missed) + " of " + count(s.Missed+s.Pairs), styleBad}
			}
		}
		valid := text{S: fmt.Sprintf("%d/%d", c.Valid, c.Trials)}
		if c.Valid < c.Trials {
			valid.Style = styleBad
		}
		t.Rows[i] = append(t.Rows[i], changes, never, valid)
	}
	t.Notes = append(t.Notes, "First and last proxy: medians over changes. Never seen: pairs of a change and a proxy that needed it and never had it.")
	return t
}

// leversTable has what each cell changes against its baseline, as a share.
func leversTable(f record.Findings) table {
	columns := []valueColumn{
		{"p50", "convergence_p50_overhead", 9}, {"p99", "convergence_p99_overhead", 6}, {"pushes", "pushes_overhead", 8},
		{"bytes a change", "push_bytes_per_change_overhead", 7}, {"configuration", "config_bytes_overhead", 4},
		{"istiod CPU a change", "istiod_cpu_per_change_overhead", 5}, {"istiod memory", "istiod_memory_overhead", 2},
		{"stale proxy-seconds", "stale_proxy_seconds_per_change_overhead", 1},
	}
	t := table{Title: "Against the baseline (95% interval)", Columns: factorColumns(f)}
	var found []map[string]record.Finding
	for _, c := range columns {
		if m := byCell(f, c.name); len(m) > 0 {
			found = append(found, m)
			t.Columns = append(t.Columns, column{c.head, true, c.keep})
		}
	}
	for _, c := range f.Cells {
		row, any := factorTexts(f, c.Cell), false
		for _, m := range found {
			x, ok := m[c.Cell.Key()]
			any = any || ok
			row = append(row, change(x, ok))
		}
		if any {
			t.Rows = append(t.Rows, row)
		}
	}
	if len(t.Rows) > 0 {
		t.Notes = append(t.Notes, "\"noise\" means that two identical baselines of a block differ by as much; ? that the interval includes zero.")
	}
	return t
}

// change is a difference as a share of the baseline's own value.
func change(x record.Finding, ok bool) text {
	switch {
	case !ok:
		return text{"–", styleDim}
	case x.Verdict == record.VerdictInvalid:
		return text{"not valid", styleDim}
	case x.Verdict == record.VerdictBelowNoise:
		return text{"noise", styleDim}
	case x.Relative == nil:
		s := scaleOf(x)
		return text{S: s.quantity(x.Estimate, x.Low, x.High)}
	}
	out := relative(x)
	if x.Verdict == record.VerdictInconclusive {
		return text{out.S + " ?", styleDim}
	}
	return out
}

// stageNames are the heads of the waterfall's columns.
var stageNames = map[string]string{
	record.StageWatch: "watch", record.StageDebounce: "debounce", record.StagePushContext: "push context", record.StageQueue: "queue",
	record.StageGenerate: "generate", record.StageWire: "wire", record.StageAck: "ack",
}

// waterfallTable has a row a cell: where the mean time from commit to
// acknowledgement goes.
func waterfallTable(f record.Findings) table {
	t := table{Columns: factorColumns(f)}
	largest := 0.0
	present := map[string]bool{}
	for _, c := range f.Cells {
		if c.Control == nil {
			continue
		}
		largest = math.Max(largest, c.Control.MeanUS)
		for _, s := range c.Control.Stages {
			present[s.Name] = true
		}
	}
	if len(present) == 0 {
		return t
	}
	s := scaleFor("us", math.Min(largest, 9e6)) // short stages stay readable in ms
	t.Title = "Where the time goes, mean " + s.Unit + " from commit to acknowledgement"
	for _, name := range record.Stages() {
		if present[name] {
			t.Columns = append(t.Columns, column{stageNames[name], true, 5})
		}
	}
	t.Columns = append(t.Columns, column{"unexplained", true, 6}, column{"whole", true, 9})
	bad := false
	for _, c := range f.Cells {
		row := factorTexts(f, c.Cell)
		k := c.Control
		if k == nil || len(k.Stages) == 0 {
			continue
		}
		for _, name := range record.Stages() {
			if !present[name] {
				continue
			}
			i := slices.IndexFunc(k.Stages, func(s record.Stage) bool { return s.Name == name })
			if i < 0 {
				row = append(row, text{"–", styleDim})
				continue
			}
			row = append(row, text{S: s.plain(k.Stages[i].MeanUS)})
		}
		rest := text{S: s.plain(k.ResidualUS), Style: styleDim}
		if math.Abs(k.ResidualUS) > math.Max(0.05*k.MeanUS, 2000) {
			rest.Style, bad = styleBad, true
		}
		t.Rows = append(t.Rows, append(row, rest, text{S: s.plain(k.MeanUS)}))
	}
	if bad {
		t.Notes = append(t.Notes, "Where more than 5% or 2 ms is unexplained, the stages do not tell the whole story.")
	}
	return t
}

// hiddenTable sets istiod's own indicator beside what was measured.
func hiddenTable(f record.Findings) table {
	t := valueTable(f, "What istiod's own indicator hides: 99th percentile (95% interval)", []valueColumn{
		{"pilot_proxy_convergence_time says", "reported_convergence_p99", 8}, {"commit to acknowledgement", "convergence_p99", 9}, {"hidden", "hidden_convergence_p99", 7},
	})
	if len(t.Columns) < len(factorColumns(f))+3 {
		return table{}
	}
	for _, c := range f.Cells {
		if c.Control != nil && c.Control.ReportedFirstBucket {
			t.Notes = append(t.Notes, "istiod's figure lies in its histogram's first bucket: it is a straight line through 0 to 100 ms and says no more than \"below\".")
			break
		}
	}
	return t
}

// amplificationTable has what a change sets off.
func amplificationTable(f record.Findings) table {
	return valueTable(f, "Push amplification (95% interval)", []valueColumn{
		{"pushes", "pushes", 7}, {"pushes a change", "pushes_per_change", 9}, {"received a change", "push_bytes_per_change", 8},
		{"of it identical", "identical_share", 6}, {"stale a change", "stale_proxy_seconds_per_change", 3},
	})
}

// typesOf lists the types of resources that any cell has, in istiod's order.
func typesOf(f record.Findings, of func(*record.ControlSummary) []string) []string {
	known := []string{"cds", "eds", "lds", "rds", "sds", "nds", "ecds"}
	return withRest(known, f.Cells, func(c record.CellSummary) []string {
		if c.Control == nil {
			return nil
		}
		return of(c.Control)
	})
}

// bytesTable has a row a cell and a column a type of resource.
func bytesTable(f record.Findings, title string, types []string, bytes func(c *record.ControlSummary, kind string) (float64, bool)) table {
	t := table{Columns: factorColumns(f)}
	largest := 0.0
	for _, c := range f.Cells {
		for _, kind := range types {
			if c.Control != nil {
				v, _ := bytes(c.Control, kind)
				largest = math.Max(largest, v)
			}
		}
	}
	if largest == 0 {
		return t
	}
	s := scaleFor("bytes", largest)
	t.Title = fmt.Sprintf(title, s.Unit)
	for i, kind := range types {
		t.Columns = append(t.Columns, column{kind, true, max(1, 8-i)})
	}
	t.Columns = append(t.Columns, column{"all", true, 9})
	for _, c := range f.Cells {
		if c.Control == nil {
			continue
		}
		row, sum := factorTexts(f, c.Cell), 0.0
		for _, kind := range types {
			v, ok := bytes(c.Control, kind)
			if !ok {
				row = append(row, text{"–", styleDim})
				continue
			}
			sum += v
			row = append(row, text{S: s.plain(v)})
		}
		t.Rows = append(t.Rows, append(row, text{S: s.plain(sum)}))
	}
	return t
}

// wireTable has what proxies received for each change, by type.
func wireTable(f record.Findings) table {
	types := typesOf(f, func(c *record.ControlSummary) []string { return mapKeys(c.Wire) })
	return bytesTable(f, "Received a change by all proxies together, %s by type", types, func(c *record.ControlSummary, kind string) (float64, bool) {
		w, ok := c.Wire[kind]
		return float64(w.Bytes) / math.Max(1, float64(c.Committed)), ok
	})
}

// configTable has the size of a proxy's configuration by type.
func configTable(f record.Findings) table {
	types := typesOf(f, func(c *record.ControlSummary) []string { return mapKeys(c.ConfigBytes) })
	return bytesTable(f, "Configuration of a proxy (median), %s by type", types, func(c *record.ControlSummary, kind string) (float64, bool) {
		v, ok := c.ConfigBytes[kind]
		return float64(v), ok
	})
}

// controlCostTable has what the control plane spends.
func controlCostTable(f record.Findings) table {
	return valueTable(f, "Cost of the control plane (95% interval)", []valueColumn{
		{"istiod CPU a change", "istiod_cpu_per_change", 9}, {"idle", "istiod_cpu_idle", 7}, {"memory", "istiod_memory", 8},
		{"allocated a change", "alloc_bytes_per_change", 4}, {"API server CPU a change", "apiserver_cpu_per_change", 3},
		{"simulator of istiod", "simulator_cpu_share", 2},
	})
}

// controlShown are the findings that the tables of a control plane show.
var controlShown = []string{"convergence_", "received_", "applied_", "stage_", "pushes", "push_bytes", "identical_share", "config_bytes", "istiod_", "alloc_bytes",
	"apiserver_cpu", "simulator_cpu", "stale_proxy", "reported_convergence", "hidden_convergence"}

// shownByControl says whether a finding repeats those tables.
func shownByControl(x record.Finding) bool {
	if x.Verdict != record.VerdictReal && (x.Name == "missed" || x.Name == "failed_changes") {
		return true
	}
	return slices.ContainsFunc(controlShown, func(prefix string) bool { return strings.HasPrefix(x.Name, prefix) })
}
