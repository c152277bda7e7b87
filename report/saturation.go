package report

import (
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
)

// saturationTable has how far the rate goes, a row a mode: the highest within
// the bound, the knee of the latency's curve, and what ends it.
func saturationTable(f record.Findings) table {
	highest, knee := named(f, "highest_rate"), named(f, "knee_rate")
	if len(highest) == 0 && len(knee) == 0 {
		return table{}
	}
	t := table{Title: "How far the rate goes, requests a second (from the highest that holds to the first that does not)"}
	factors := slices.DeleteFunc(slices.Clone(f.Factors), func(l record.FactorLevels) bool { return l.Factor == "rate" })
	for _, l := range factors {
		t.Columns = append(t.Columns, column{Head: strings.ReplaceAll(l.Factor, "_", " "), Right: numbers(l.Levels)})
	}
	t.Columns = append(t.Columns, column{"within the bound", true, 0}, column{"knee", true, 5}, column{"blocks", true, 1}, column{"what ends it", false, 3})
	seen := map[string]bool{}
	for _, c := range f.Cells {
		cell := withoutRate(c.Cell)
		h, haveH := highest[cell.Key()]
		k, haveK := knee[cell.Key()]
		if seen[cell.Key()] || !haveH && !haveK {
			continue
		}
		seen[cell.Key()] = true
		var row []text
		for _, l := range factors {
			row = append(row, text{S: cell[l.Factor]})
		}
		blocks := text{"–", styleDim}
		if haveH {
			blocks = text{S: count(h.Blocks)}
		}
		t.Rows = append(t.Rows, append(row, reachText(h, haveH), reachText(k, haveK), blocks, text{S: strings.Join(h.Warnings, "; ")}))
	}
	t.Notes = append(t.Notes, "The knee is the highest rate at which the 99th percentile stays within twice what it is at the lowest. "+
		"A limit of the generator, or of the machine that all share, is not one of the proxies, and is not told as such.")
	return t
}

// reachText is from where to where a limit lies; "or more" where nothing that
// was measured is beyond it, or what is gave out for another reason.
func reachText(x record.Finding, ok bool) text {
	switch {
	case !ok || x.Verdict == record.VerdictInvalid:
		return text{"–", styleDim}
	case x.Low == 0 && x.High == 0:
		return text{"not known", styleBad}
	case x.Low == 0:
		return text{S: "below " + amount(x.High)}
	case x.High > x.Low:
		return text{amount(x.Low) + "–" + amount(x.High), styleStrong}
	}
	return text{S: amount(x.Low) + " or more"}
}
