package sections

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/observe/profile"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// controlCostTable lists the resources that the control plane uses.
func controlCostTable(f record.Findings) report.Table {
	return noted(figureTable(f, "Cost of the control plane (95% interval)", report.FigureColumns{
		{"istiod CPU per change", "istiod_cpu_per_change", 9}, {"idle", "istiod_cpu_idle", 7}, {"memory", "istiod_memory", 8},
		{"API server CPU per change", "apiserver_cpu_per_change", 3}, {"API server idle", "apiserver_cpu_idle", 2}, {"simulator of istiod", "simulator_cpu_share", 2},
	}), "CPU per change excludes idle use, the median over the cell's trials.")
}

// metricsTable lists what istiod's metrics omit.
func metricsTable(f record.Findings) report.Table {
	t := report.Table{Title: "Missing istiod metrics", Columns: []report.Column{{Head: "metric"}}}
	for _, name := range typesOf(f, func(c *record.ControlSummary) []string { return c.Missing }) {
		t.Rows = append(t.Rows, []report.Text{{S: name, Style: report.StyleBad}})
	}
	return noted(t, "This istiod does not export them: anything derived from them is missing, not zero.")
}

// Number of functions of each kind of profile in a report.
const profiledFunctions = 8

// profileTables lists where istiod, in one cell, spends CPU, waits for locks, blocks and retains
// memory.
func profileTables(f record.Findings) []report.Table {
	described, ok := describedCell(f)
	if !ok {
		return nil
	}
	if len(described.Control.Profiles) == 0 {
		i := max(0, slices.IndexFunc(f.Cells, func(c record.CellSummary) bool { return len(c.Control.Profiles) > 0 }))
		described = f.Cells[i]
	}
	var out []report.Table
	for _, p := range described.Control.Profiles {
		out = append(out, functionTables(p, profileTitle(p, described, len(f.Cells) > 1))...)
	}
	return out
}

// functionTables lists a profile's most expensive functions, by their own cost and with callees.
func functionTables(p record.Profile, title string) []report.Table {
	s := profile.Summary{Kind: p.Kind, Unit: p.Unit, Total: p.Total, Samples: cpuSamples(p), Self: shortened(p.Flat), Cumulative: shortened(p.Cumulative)}
	if profile.TooFew(s.Kind, s.Samples) {
		return []report.Table{{Title: title, Columns: []report.Column{{Head: "function"}}, Rows: [][]report.Text{{{S: "too few samples"}}},
			Notes: []string{report.UpperFirst(profile.Few(s.Samples).String()) + "."}}}
	}
	out := []report.Table{report.ProfileFunctions(s, false, profiledFunctions), report.ProfileFunctions(s, true, profiledFunctions)}
	for i := range out {
		t := &out[i]
		t.Title = title + ". " + t.Title
		if p.File != "" && len(t.Rows) > 0 {
			t.Notes = append(t.Notes, "Flame graph: meshtrial profile profiles/"+p.File+" --format html")
		}
	}
	return out
}

// profileTitle names the subject of a profile.
func profileTitle(p record.Profile, c record.CellSummary, label bool) string {
	what := map[string]string{"cpu": "CPU", "mutex": "waiting for locks", "block": "blocked", "heap": "memory in use"}[p.Kind]
	if what == "" {
		what = p.Kind
	}
	s := fmt.Sprintf("istiod %d: %s", p.Replica, what)
	if p.Total > 0 {
		s += ", " + profileAmount(p, p.Total) + " in all"
		if n := cpuSamples(p); n > 0 {
			s += " (" + words.Plural(n, "sample") + ")"
		}
	}
	if p.Kind != "heap" {
		s += fmt.Sprintf(" in %s s", report.Fixed(p.Seconds, 0))
	}
	if label {
		s += " (" + c.Label + ")"
	}
	return s
}

// Go's runtime samples once per 10 ms of CPU time used by a process (runtime/pprof, 100 Hz).
const cpuSampleNS = 10_000_000

// cpuSamples returns the number of samples in a CPU profile; 0 for other kinds.
func cpuSamples(p record.Profile) int64 {
	if p.Kind != "cpu" || p.Unit != "nanoseconds" {
		return 0
	}
	return p.Total / cpuSampleNS
}

// shortened removes import paths from the names of functions.
func shortened(costs []record.ProfileCost) []record.ProfileCost {
	out := slices.Clone(costs)
	for i := range out {
		out[i].Function = shortFunction(out[i].Function)
	}
	return out
}

// shortFunction removes the import path from a function's name.
func shortFunction(name string) string {
	// The path ends at the last slash before the receiver or arguments.
	end := strings.IndexAny(name, "([")
	if end < 0 {
		end = len(name)
	}
	return name[strings.LastIndex(name[:end], "/")+1:]
}

// profileAmount formats a value of a profile.
func profileAmount(p record.Profile, v int64) string {
	switch p.Unit {
	case "nanoseconds":
		return report.ScaleFor("us", float64(v)/1e3).Value(float64(v) / 1e3)
	case "bytes":
		return report.ScaleFor("bytes", float64(v)).Value(float64(v))
	}
	return report.Count(v) + " " + p.Unit
}
