package sections

import (
	"math"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// controlParts lists the parts of a control-plane study in column order, with the priority for
// omission in narrow tables.
var controlParts = []struct {
	part, words string
	keep        int
}{
	{record.PartControl, "istiod", 9}, {record.PartSimulator, "simulated sidecars", 6}, {record.PartServerProxy, "real sidecars", 7},
	{record.PartGateway, "gateway", 6}, {record.PartAPIServer, "API server", 5}, {record.PartClientProxy, "callers' sidecars", 3}, {record.PartWorker, "workers", 2}, {record.PartGenerator, "load generators", 2},
	{record.PartRest, "rest", 8}, {record.PartUnattributed, "unattributed", 8}, {record.PartMachine, "whole machine", 8},
}

// machineTable lists the users of the machine's CPUs during the windows, and the machine's state.
func machineTable(f record.Findings) report.Table {
	t := report.Table{Columns: report.FactorColumns(f)}
	largest, machines, rest, states := 0.0, 0, false, false
	present := map[string]bool{}
	for _, c := range f.Cells {
		for part, cores := range c.Control.Parts {
			present[part] = true
			largest = math.Max(largest, cores)
			rest = rest || part == record.PartRest
		}
		if len(c.Control.Parts) > 0 {
			machines++
		}
		states = states || c.Pressure != nil
	}
	if machines == 0 {
		return t
	}
	s := report.Scale{Div: 1e-3, Unit: "mCPU"}
	if largest >= 100 {
		s = report.Scale{Div: 1, Unit: "cores"}
	}
	t.Title = "CPU by component during the windows, mean " + s.Unit
	for _, p := range controlParts {
		if present[p.part] {
			t.Columns = append(t.Columns, report.Column{Head: p.words, Right: true, Keep: p.keep})
		}
	}
	if states {
		t.Columns = append(t.Columns, report.Column{Head: "CPUs busy", Right: true, Keep: 8}, report.Column{Head: "CPU pressure (PSI some)", Right: true, Keep: 4}, report.Column{Head: "steal", Right: true, Keep: 1})
	}
	for _, c := range f.Cells {
		if len(c.Control.Parts) == 0 {
			continue
		}
		row := report.FactorTexts(f, c.Cell)
		for _, p := range controlParts {
			cores, ok := c.Control.Parts[p.part]
			switch {
			case !present[p.part]:
			case !ok:
				row = append(row, report.Dash)
			default:
				row = append(row, report.Text{S: report.Fixed(cores/s.Div, report.Clamp(1-report.Magnitude(cores/s.Div), 0, 2))})
			}
		}
		if p := c.Pressure; states && p != nil {
			row = append(row, report.Text{S: report.Percent(p.BusyRatio)}, report.Text{S: report.Percent(p.CPUSomeRatio)}, report.Text{S: report.Percent(p.StealRatio)})
		} else if states {
			row = append(row, report.Dash, report.Dash, report.Dash)
		}
		t.Rows = append(t.Rows, row)
	}
	if rest {
		t.Notes = append(t.Notes, "Rest: everything these counters miss, such as kubelet, etcd, controllers, containerd, meshtrial itself and the kernel. The API server's share comes from its own metrics.")
	}
	if present[record.PartUnattributed] {
		t.Notes = append(t.Notes, "Unattributed: processes outside the study.")
	}
	return t
}

// installedTable lists, once per run, the values of the levers that the study leaves as installed.
func installedTable(f record.Findings) report.Table {
	t := report.Table{Title: "Levers as installed", Columns: []report.Column{{Head: "lever"}, {Head: "found"}}}
	for _, lever := range controlplane.Levers() {
		var found []string
		for _, c := range f.Cells {
			if level := c.Control.Installed[lever.Name]; level != "" && !slices.Contains(found, level) {
				found = append(found, level)
			}
		}
		if len(found) > 0 {
			t.Rows = append(t.Rows, []report.Text{{S: lever.Name}, {S: strings.Join(found, "; ")}})
		}
	}
	return t
}
