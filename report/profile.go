package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/observe/profile"
)

// RenderProfile writes a profile's results for a terminal. top limits the lists;
// 0 means no limit.
func RenderProfile(w io.Writer, s profile.Summary, top int, opt Options) error {
	t := newText(opt)
	title := s.Title + ": " + profileSum(s) + " in " + words.Plural(s.Samples, "sample")
	if s.SpanS >= 0.1 {
		title += fmt.Sprintf(" over %s s", Fixed(s.SpanS, 1))
	}
	t.line(t.paint(StyleStrong, title))
	if !s.Enough {
		t.wrap("", fmt.Sprintf("Symbols are missing: only %s of user-space time has a function name. Results are by module and kernel function.", SharePercent(s.Trust)))
	}
	if s.TooFew {
		t.wrap("", UpperFirst(profile.Few(s.Samples).String())+".")
		t.list("How to get the names", s.Advice)
		t.list("Notes", s.Notes)
		return t.writeTo(w)
	}
	t.tables(profileBinaries(s), profileThreads(s), ProfileCentres(s, top), ProfileFilters(s), profileDiff(s, top))
	t.tables(ProfileFunctions(s, false, top))
	if s.Enough {
		t.tables(ProfileFunctions(s, true, top))
	}
	t.list("How to get the names", s.Advice)
	t.list("Notes", s.Notes)
	return t.writeTo(w)
}

// WriteProfilePage writes one HTML file with a profile's flame graph and tables.
func WriteProfilePage(w io.Writer, s profile.Summary, v profile.View) error {
	page, err := ProfilePage(s, v)
	if err != nil {
		return err
	}
	return writePage(w, page)
}

// ProfilePage returns the page of a profile.
func ProfilePage(s profile.Summary, v profile.View) (Page, error) {
	flame, err := json.Marshal(v)
	if err != nil {
		return Page{}, fmt.Errorf("a profile as JSON: %w", err)
	}
	const most = 40 // changes
	return Page{Title: s.Title, Footer: selfContained, Sections: []PageSection{
		{Name: "flame", Title: "Flame graph", Charts: []Chart{{Name: "Flame graph of " + s.Title, Flame: flame}}},
		{Name: "costs", Title: "Where the time goes", Tables: withRows(ProfileCentres(s, 0), ProfileFilters(s), profileDiff(s, most), profileThreads(s), profileBinaries(s))},
	}}, nil
}

// profileSum formats a profile's total.
func profileSum(s profile.Summary) string {
	total := float64(s.Total)
	switch s.Unit {
	case profile.UnitNanoseconds:
		if s.Kind == profile.KindCPU {
			return ScaleFor("ns", total).Value(total) + " of CPU"
		}
		return ScaleFor("ns", total).Value(total)
	case "bytes":
		return ScaleFor("bytes", total).Value(total)
	case profile.UnitSamples, "count":
		return "taken"
	}
	return Count(s.Total) + " " + s.Unit
}

// SharePercent formats a share, with a decimal if it is small.
func SharePercent(v float64) string {
	if v != 0 && v < 0.0995 {
		return Fixed(100*v, 1) + "%"
	}
	return Fixed(100*v, 0) + "%"
}

// ShareInterval formats a share with its interval.
func ShareInterval(share, low, high float64) string {
	return ScaleFor("ratio", 1).Interval(share, low, high) + "%"
}

func profileBinaries(s profile.Summary) Table {
	t := Table{Title: "Symbol coverage", Columns: []Column{{Head: "binary"}, {Head: "of all", Right: true}, {Head: "named", Right: true}, {Head: "its file holds", Keep: 3}, {Head: "build id", Keep: 1}}}
	for _, b := range s.Binaries {
		if float64(b.Weight) < 0.005*float64(s.Total) {
			continue
		}
		named := Text{S: SharePercent(b.Resolved)}
		if b.Resolved < profile.TrustedShare {
			named.Style = StyleBad
		}
		id := cmp.Or(b.BuildID, "–")
		t.Rows = append(t.Rows, []Text{{S: b.Path}, {S: SharePercent(float64(b.Weight) / float64(max(s.Total, 1)))}, named, {S: cmp.Or(b.Type, "?")}, {S: id[:min(len(id), 16)]}})
		if b.Why != "" {
			t.Notes = append(t.Notes, path.Base(b.Path)+": "+b.Why+".")
		}
	}
	return t
}

func profileThreads(s profile.Summary) Table {
	t := Table{Title: "By thread", Columns: []Column{{Head: "thread"}, {Head: "threads", Right: true, Keep: 1}, {Head: "of all (95% interval)", Right: true}, {Head: "of it in the kernel", Right: true, Keep: 2}}}
	if len(s.Threads) < 2 && (len(s.Threads) == 0 || s.Threads[0].Name == "") {
		return t
	}
	for _, c := range s.Threads {
		if c.Share < 0.001 {
			continue
		}
		t.Rows = append(t.Rows, []Text{{S: cmp.Or(c.Name, "?")}, {S: Count(c.Threads)}, {S: profileShare(s, c.Weight, true)}, {S: SharePercent(float64(c.Kernel) / float64(max(c.Weight, 1)))}})
	}
	return t
}

// ProfileCentres shows where the time went. Without names it can show little but
// the kernel.
func ProfileCentres(s profile.Summary, top int) Table {
	t := Table{Title: "Cost centres", Columns: []Column{{Head: "group"}, {Head: "centre"}, {Head: "of all (95% interval)", Right: true}, {Head: "in the kernel for it", Right: true, Keep: 2}, {Head: "in its stacks", Right: true, Keep: 1}}}
	if s.Kind != profile.KindCPU {
		return Table{}
	}
	if profile.TooFew(s.Kind, s.Samples) {
		t.Rows = append(t.Rows, []Text{Dash, {S: "too few samples"}, Dash, {}, {}})
		t.Notes = append(t.Notes, UpperFirst(profile.Few(s.Samples).String())+".")
		return t
	}
	var rest []profile.CentreCost
	for i, c := range s.Costs.Centres {
		switch {
		case c.Weight == 0 && c.Kernel == 0 || top > 0 && i >= top:
			continue
		case c.Low <= 0 || !profile.Tells(c.Weight, s.Costs.Total, s.Costs.Samples):
			rest = append(rest, c)
			continue
		}
		kernel := Dash
		if c.Kernel > 0 {
			kernel = Text{S: SharePercent(float64(c.Kernel) / float64(s.Costs.Total))}
		}
		t.Rows = append(t.Rows, []Text{{S: c.Group}, {S: c.Name}, {S: ShareInterval(c.Share, c.Low, c.High)}, kernel, {S: SharePercent(float64(c.Within) / float64(max(s.Costs.Total, 1)))}})
	}
	left := len(s.Costs.Centres) - len(t.Rows) - len(rest)
	if len(rest) > 0 {
		t.Rows = append(t.Rows, restOfCentres(rest, s.Costs))
	}
	if left > 0 && len(t.Rows) > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("%d more are in JSON (--format json).", left))
	}
	t.Notes = append(t.Notes, "Each sample counts towards one centre: that of the innermost known function, or the kernel's. Intervals: "+s.Costs.Method+".")
	return t
}

// restOfCentres combines those whose own shares cannot be distinguished from
// zero.
func restOfCentres(rest []profile.CentreCost, costs profile.Costs) []Text {
	var weight int64
	for _, c := range rest {
		weight += c.Weight
	}
	share := float64(weight) / float64(max(costs.Total, 1))
	low, high := profile.Wilson(share, costs.Samples)
	return []Text{{S: "other"}, {S: fmt.Sprintf("%s, each too small to tell", words.Plural(len(rest), "centre"))}, {S: ShareInterval(share, low, high)}, {}, {}}
}

func ProfileFilters(s profile.Summary) Table {
	t := Table{Title: "Filters of the configuration", Columns: []Column{{Head: "filter"}, {Head: "kind", Keep: 2}, {Head: "of all (95% interval)", Right: true}, {Head: "in its stacks", Right: true, Keep: 1}, {Head: "chains", Right: true, Keep: 1}}}
	shared := false
	if profile.TooFew(s.Kind, s.Samples) {
		return t
	}
	for _, f := range s.Costs.Filters {
		name := f.Name
		if f.Plugin != "" && f.Plugin != f.Name {
			name += " (" + f.Plugin + ")"
		}
		row := []Text{{S: name}, {S: f.Group}}
		switch {
		case !s.Enough:
			row = append(row, Text{"no names", StyleDim}, Text{})
		case !f.Seen:
			row = append(row, Text{"never seen", StyleDim}, Text{})
		default:
			value := ShareInterval(f.Share, f.Low, f.High)
			if f.Shared {
				value += " *"
				shared = true
			}
			row = append(row, Text{S: value}, Text{S: SharePercent(f.Within)})
		}
		t.Rows = append(t.Rows, append(row, Text{S: Count(f.Places)}))
	}
	if shared {
		t.Notes = append(t.Notes, "* all filters of this kind together: they share functions.")
	}
	return t
}

// profileDiff shows the paths whose own share changed most.
func profileDiff(s profile.Summary, top int) Table {
	t := Table{Title: "Largest changes, in percentage points", Columns: []Column{{Head: "function"}, {Head: "itself (95% interval)", Right: true}, {Head: "with calls", Right: true, Keep: 2}, {Head: "before", Right: true, Keep: 1}, {Head: "after", Right: true, Keep: 1}, {Head: ""}}}
	if s.Against == nil {
		return Table{}
	}
	if s.Against.TooFew {
		t.Rows = append(t.Rows, []Text{{S: note.Words(s.Against.Warnings)}})
		return t
	}
	for _, d := range s.Against.Paths {
		if top > 0 && len(t.Rows) >= top {
			break
		}
		if d.SelfLow <= 0 && d.SelfHigh >= 0 {
			continue
		}
		word := ""
		switch {
		case d.Vanished:
			word = "vanished"
		case d.New:
			word = "new"
		}
		t.Rows = append(t.Rows, []Text{{S: d.Frames[len(d.Frames)-1].Label()}, {S: points(d.Self, d.SelfLow, d.SelfHigh)}, {S: points(d.Delta, d.Low, d.High)}, {S: SharePercent(d.Before)}, {S: SharePercent(d.After)}, {S: word}})
	}
	if len(t.Rows) == 0 {
		t.Rows = append(t.Rows, []Text{{S: "no significant change"}})
	}
	t.Notes = append(t.Notes, fmt.Sprintf("Shares of %s before and %s after. %s; per path, so about 5 in 100 unchanged paths will appear to change.", words.Plural(s.Against.Before.Samples, "sample"), words.Plural(s.Against.After.Samples, "sample"), s.Against.Method))
	t.Notes = append(t.Notes, note.Texts(s.Against.Warnings)...)
	return t
}

// points formats a difference of shares in percentage points.
func points(delta, low, high float64) string {
	out := Scale{Div: 0.01}.Interval(delta, low, high)
	if delta > 0 {
		out = "+" + out
	}
	return out
}

// ProfileFunctions lists the functions with the highest cost of their own, or including callees. top
// limits their number; 0 means no limit.
func ProfileFunctions(s profile.Summary, callees bool, top int) Table {
	t := Table{Title: "Top functions by self cost", Columns: []Column{{Head: "itself", Right: true}, {Head: "with calls", Right: true}, {Head: "function"}}}
	costs, sorted := s.Self, &t.Columns[0]
	if callees {
		t.Title, costs, sorted = "Top functions by cumulative cost", s.Cumulative, &t.Columns[1]
	}
	if s.Kind == profile.KindCPU {
		sorted.Head += " (95% interval)"
	}
	for _, c := range costs {
		if top > 0 && len(t.Rows) >= top {
			break
		}
		weight := c.Flat
		if callees {
			weight = c.Cumulative
		}
		if weight <= 0 || s.Kind == profile.KindCPU && !profile.Tells(weight, s.Total, s.Samples) {
			continue // no cost, or too few samples for its share
		}
		t.Rows = append(t.Rows, []Text{{S: profileShare(s, c.Flat, !callees)}, {S: profileShare(s, c.Cumulative, callees)}, {S: strings.TrimSpace(c.Function)}})
	}
	return t
}

// profileShare formats a weight's share, with the interval for independent
// samples.
func profileShare(s profile.Summary, weight int64, interval bool) string {
	share := float64(weight) / float64(max(s.Total, 1))
	if !interval || s.Kind != profile.KindCPU {
		return SharePercent(share)
	}
	low, high := profile.Wilson(share, s.Samples)
	return ShareInterval(share, low, high)
}
