package report

import (
	"encoding/json"
	"strings"

	"github.com/meshtrial/meshtrial/profile"
	"github.com/meshtrial/meshtrial/record"
)

// Bounds of the tables of a run's profiles.
const (
	maxProfileTables = 6
	maxCentres       = 12
)

// profilesTables are where the proxies of a run spent their CPU time, and what
// profiling them cost.
func profilesTables(f record.Findings) []table {
	var out []table
	told := map[string]bool{}
	for i, raw := range f.Profiles {
		if i == maxProfileTables {
			last := &out[len(out)-1]
			last.Notes = append(last.Notes, "Profiles of "+plural(len(f.Profiles)-i, "more")+" are on the page.")
			break
		}
		var v profile.View
		if json.Unmarshal(raw, &v) != nil || v.Costs == nil {
			continue
		}
		s := profile.Summary{Title: v.Title, Kind: v.Kind, Unit: v.Unit, Total: v.Total, Samples: v.Samples, Trust: v.Trust, Enough: v.Enough, Advice: v.Advice, Costs: *v.Costs}
		t := profileCentres(s, maxCentres)
		t.Title = "Where the CPU time goes: " + v.Title + ", " + plural(v.Samples, "sample")
		for n, note := range t.Notes {
			t.Notes[n] = strings.Replace(note, "--top 0 or --format json has them", "the page has them", 1)
		}
		if !s.Enough {
			missing := "Names of functions are missing: " + sharePercent(s.Trust) + " of the time in user space has one."
			if advice := strings.Join(s.Advice, ". "); advice != "" && !told[advice] {
				told[advice] = true
				missing += " " + advice + "."
			}
			t.Notes = append(t.Notes, missing)
		}
		out = append(out, t)
		if filters := profileFilters(s); len(filters.Rows) > 0 && s.Enough {
			filters.Title += ": " + v.Title
			out = append(out, filters)
		}
	}
	if t := profilingTable(f); len(t.Rows) > 0 {
		out = append(out, t)
	}
	return out
}

// profilingTable is what profiling added to the CPU of what was profiled.
func profilingTable(f record.Findings) table {
	t := table{Title: "What profiling itself cost", Columns: append(factorColumns(f), column{"proxy", false, 0}, column{"CPU more than in the window (95% interval)", true, 0}, column{"verdict", false, 2})}
	for _, finding := range f.Findings {
		part, ok := strings.CutPrefix(finding.Name, "profile_cost_")
		if !ok {
			continue
		}
		value := text{S: shareInterval(finding.Estimate, finding.Low, finding.High)}
		if finding.Verdict == record.VerdictInvalid {
			value = text{"too few blocks", styleDim}
		}
		t.Rows = append(t.Rows, append(factorTexts(f, finding.Cell), text{S: strings.TrimSuffix(part, "_proxy")}, value, verdict(finding.Verdict)))
	}
	if len(t.Rows) > 0 {
		t.Notes = append(t.Notes, "The same load ran once more for the profiles, so that they are in no other figure.")
	}
	return t
}
