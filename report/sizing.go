package report

import (
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
)

// SizingTables shows what each way of carrying requests uses in the described mesh, and
// where the order of two of them reverses.
func SizingTables(f record.Findings) []Table {
	var out []Table
	for _, z := range f.Sizings {
		of := ""
		if len(z.Cell) > 0 {
			of = " (" + LevelWords(f, z.Cell) + ")"
		}
		ways := sizedWays(z, of)
		ways.Notes = append(ways.Notes, lackingWaypoint(f, z)...)
		out = append(out, ways, sizedBorders(z, of))
	}
	return out
}

// lackingWaypoint says what a waypoint would use more of if it had everything that Istio's
// has.
func lackingWaypoint(f record.Findings, z record.Sizing) (out []string) {
	passed := slices.ContainsFunc(z.Ways, func(w record.SizedWay) bool {
		return slices.ContainsFunc(w.Uses, func(u record.SizedUse) bool { _, ok := u.Idle[record.PlaceWaypoint]; return ok })
	})
	for _, c := range f.Parts {
		if passed && c.Name == record.PartWaypoint && len(c.Lacks) > 0 {
			out = append(out, "The waypoint is "+c.Source+" and lacks "+strings.Join(c.Lacks, ", ")+": one that has these takes more.")
		}
	}
	return out
}

// sizedWays has one row per way.
func sizedWays(z record.Sizing, of string) Table {
	t := Table{Title: "Where each wins: what the proxies of the stated mesh take (95% interval)" + of, Columns: []Column{{Head: "requests carried by"}}}
	totals := map[string][]float64{} // the ends of their intervals
	machine := false
	for _, w := range z.Ways {
		machine = machine || w.Machine != nil
		for _, u := range w.Uses {
			totals[u.Of] = append(totals[u.Of], u.Total.Low, u.Total.High)
		}
	}
	month := sizedCurrency(z)
	if month != "" {
		t.Columns = append(t.Columns, Column{Head: "a month, " + month, Right: true})
	}
	var uses []string
	for _, one := range []struct {
		of, head, unit, each string
		keepIdle, keepEach   int
	}{
		{record.SizedCPU, "CPU", "cores", "CPU per 1,000 requests/s, cores", 9, 7}, {record.SizedMemory, "memory", "bytes", "memory per 1,000 requests/s", 8, 5},
	} {
		if totals[one.of] == nil {
			continue
		}
		uses = append(uses, one.of)
		t.Columns = append(t.Columns, Column{Head: one.head + ", " + ScaleFor(one.unit, totals[one.of]...).Unit, Right: true},
			Column{Head: one.head + " without requests, each", Keep: one.keepIdle}, Column{Head: one.each, Right: true, Keep: one.keepEach})
	}
	if machine {
		t.Columns = append(t.Columns, Column{Head: "whole machine per 1,000 requests/s, cores", Right: true, Keep: 4})
	}
	for _, w := range z.Ways {
		row := []Text{{S: w.Name}}
		if month != "" {
			row = append(row, sizedMonth(w))
		}
		for _, of := range uses {
			row = append(row, sizedUse(w, of, totals[of])...)
		}
		if machine {
			row = append(row, sizedFigure(w.Machine, Scale{Div: 1000}))
		}
		t.Rows = append(t.Rows, row)
	}
	from := "From what each block measured, straight from one rate to the next; what requests add is the mean of the stated mesh's."
	if z.Along != "" {
		from = "From lines along the measured " + z.Along + ", one per block."
	}
	t.Notes = append([]string{"For a mesh of " + z.Mesh + ". " + from + " Not included: the control plane, and the memory that proxies need for a larger mesh's configuration."}, note.Texts(z.Notes)...)
	if machine {
		t.Notes = append(t.Notes, "Whole machine: what a request takes beyond one that no proxy carries, including the kernel's part.")
	}
	return t
}

// sizedCurrency returns the currency in which ways are priced; "" if none is.
func sizedCurrency(z record.Sizing) string {
	for _, w := range z.Ways {
		for _, u := range w.Uses {
			if u.Of == record.SizedMonth {
				currency, _ := SplitUnit(u.Total.Unit)
				return currency
			}
		}
	}
	return ""
}

// sizedMonth formats the monthly cost of a way.
func sizedMonth(w record.SizedWay) Text {
	for _, u := range w.Uses {
		switch {
		case u.Of != record.SizedMonth:
		case u.Total.Verdict == record.VerdictInvalid:
			return Text{S: "not valid", Style: StyleDim}
		default:
			return Text{S: WholeInterval(record.Finding{Estimate: u.Total.Estimate, Low: u.Total.Low, High: u.Total.High})}
		}
	}
	return Dash
}

// sizedUse formats a way's figures for CPU or memory.
// The ends of all ways' intervals give its total a scale.
func sizedUse(w record.SizedWay, of string, ends []float64) []Text {
	i := slices.IndexFunc(w.Uses, func(u record.SizedUse) bool { return u.Of == of })
	if i < 0 {
		return []Text{Dash, Dash, Dash}
	}
	u := w.Uses[i]
	named := func(p *record.Priced, s Scale) Text {
		figure := sizedFigure(p, s)
		if figure.Style == StyleNone {
			figure.S = Join(figure.S, s.Unit)
		}
		return figure
	}
	var idle []string
	add := func(p record.Priced, words string) {
		idle = append(idle, named(&p, ScaleFor(p.Unit, p.Low, p.High)).S+" "+words)
	}
	for _, p := range []struct {
		place record.Place
		words string
	}{{record.PlaceSidecar, "a sidecar"}, {record.PlaceNode, "a node"}, {record.PlaceWaypoint, "a waypoint"}} {
		if one, ok := u.Idle[p.place]; ok {
			add(one, p.words)
		}
	}
	if u.Pod != nil {
		add(*u.Pod, "a pod")
	}
	request := Dash
	if u.Request.Blocks > 0 || u.Request.Verdict != record.VerdictInvalid { // else it was not asked for
		each := Scale{Div: 1000} // of µs per request, cores per 1,000 requests a second
		if of == record.SizedMemory {
			each = ScaleFor("bytes", 1000*u.Request.Low, 1000*u.Request.High)
			each.Div /= 1000
		}
		request = named(&u.Request, each)
	}
	return []Text{sizedFigure(&u.Total, ScaleFor(u.Total.Unit, ends...)), {S: strings.Join(idle, ", ")}, request}
}

func sizedFigure(p *record.Priced, s Scale) Text {
	switch {
	case p == nil:
		return Dash
	case p.Verdict == record.VerdictInvalid:
		return Text{S: "not valid", Style: StyleDim}
	}
	return Text{S: s.Interval(p.Estimate, p.Low, p.High)}
}

// sizedBorders has one row for each quantity along which the order of two ways may
// reverse.
func sizedBorders(z record.Sizing, of string) Table {
	t := Table{Title: "Where two ways change places, all else as stated (95% interval)" + of,
		Columns: []Column{{Head: "of"}, {Head: "between"}, {Head: "along"}, {Head: "takes less"}}}
	for _, b := range z.Borders {
		what := b.Of
		switch what {
		case record.SizedCPU:
			what = "CPU"
		case record.SizedMonth:
			what = "price"
		}
		t.Rows = append(t.Rows, []Text{{S: what}, {S: strings.Join(b.Between, " and ")}, {S: b.Along}, {S: b.Says.String()}})
	}
	if len(t.Rows) > 0 {
		t.Notes = append(t.Notes, "A border's interval is where the interval of the within-block difference includes zero.")
	}
	return t
}

// SizingAnswers compares the ways in the described mesh.
func SizingAnswers(f record.Findings) []string {
	var out []string
	for _, z := range f.Sizings {
		of := ""
		if len(z.Cell) > 0 {
			of = "At " + LevelWords(f, z.Cell) + ": "
		}
		for _, says := range z.Says {
			out = append(out, of+says.String())
		}
	}
	return out
}

// LevelWords names some of a cell's levels in the order of the factors.
func LevelWords(f record.Findings, cell record.Cell) string {
	var words []string
	for _, factor := range f.Factors {
		if level, ok := cell[factor.Factor]; ok {
			words = append(words, FactorName(factor.Factor)+" "+level)
		}
	}
	return strings.Join(words, ", ")
}
