package sections

import (
	"encoding/json"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/observe/profile"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// Limits of the profile tables.
const (
	maxProfileTables = 6
	maxCentres       = 12
)

// profilesTables lists where the proxies of a run spent their CPU time, and the cost of profiling
// them.
func profilesTables(f record.Findings) []report.Table {
	var out []report.Table
	told := map[string]bool{}
	for i, raw := range f.Profiles {
		if i == maxProfileTables {
			last := &out[len(out)-1]
			last.Notes = append(last.Notes, "The page has "+words.Plural(len(f.Profiles)-i, "more profile")+".")
			break
		}
		var v profile.View
		if json.Unmarshal(raw, &v) != nil || v.Costs == nil {
			continue
		}
		s := profile.Summary{Title: v.Title, Kind: v.Kind, Unit: v.Unit, Total: v.Total, Samples: v.Samples,
			Trust: v.Trust, Enough: v.Enough, Advice: v.Advice, Costs: *v.Costs}
		t := report.ProfileCentres(s, maxCentres)
		t.Title = "Where the CPU time goes: " + v.Title
		if profile.TooFew(s.Kind, s.Samples) { // the table states it
			out = append(out, t)
			continue
		}
		t.Title += ", " + words.Plural(v.Samples, "sample")
		if !s.Enough {
			missing := "Symbols are missing: only " + report.SharePercent(s.Trust) + " of user-space time has a function name."
			if advice := strings.Join(s.Advice, ". "); advice != "" && !told[advice] {
				told[advice] = true
				missing += " " + advice + "."
			}
			t.Notes = append(t.Notes, missing)
		}
		out = append(out, t)
		if filters := report.ProfileFilters(s); len(filters.Rows) > 0 && s.Enough {
			filters.Title += ": " + v.Title
			out = append(out, filters)
		}
	}
	if t := profilingTable(f); len(t.Rows) > 0 {
		out = append(out, t)
	}
	return out
}

// profilingTable lists the CPU that profiling added to the profiled parts.
func profilingTable(f record.Findings) report.Table {
	t := report.Table{Title: "Profiling overhead", Columns: append(report.FactorColumns(f),
		report.Column{Head: "proxy"}, right("extra CPU vs. the window (95% interval)", 0), report.Column{Head: "verdict", Keep: 2})}
	for _, part := range record.ProxyParts() {
		for _, x := range f.Findings {
			if x.Name != dataplane.FindingProfileCost+"_"+part {
				continue
			}
			value := report.Text{S: report.ShareInterval(x.Estimate, x.Low, x.High)}
			if x.Verdict == record.VerdictInvalid {
				value = report.Text{S: "too few blocks", Style: report.StyleDim}
			}
			t.Rows = append(t.Rows, append(report.FactorTexts(f, x.Cell), report.Text{S: report.PartWords(part)},
				value, report.Verdict(x.Verdict)))
		}
	}
	return t
}

// profileCharts returns the flame graphs of a run's profiles, with a switch for each.
func profileCharts(f record.Findings) []report.Chart {
	var out []report.Chart
	for _, raw := range f.Profiles {
		var v profile.View
		if json.Unmarshal(raw, &v) == nil {
			out = append(out, report.Chart{Name: "Flame graph of " + v.Title,
				Options: []report.Option{{Switch: "profile of", Choice: v.Title}}, Flame: raw})
		}
	}
	return out
}
