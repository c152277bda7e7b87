package sections

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/report"
)

// a pairing is a comparison of two levels of one factor.
type pairing struct {
	record.Finding
	of            string // the measure's name in findings
	measure       string // in words
	factor        string
	level, before string
	saved         bool // the share saved by the other level
}

// pairings returns the comparisons among the findings, in the order of measures.
func pairings(f record.Findings) (out []pairing) {
	table := Kind().Findings
	for _, of := range dataplane.VersusMeasures() {
		for _, x := range f.Findings {
			d, ok := table.Find(x.Name)
			if !ok || d.Source != finding.FromVersus || d.Of != of {
				continue
			}
			p := pairing{Finding: x, of: d.Of, measure: d.Row, saved: d.Section == dataplane.SectionFilters, factor: "envoy"}
			if p.saved {
				p.factor = "filters"
			}
			p.level, p.before = cmp.Or(x.Cell[p.factor], x.Cell["variant"]), cmp.Or(x.Against[p.factor], x.Against["variant"])
			out = append(out, p)
		}
	}
	return out
}

// filterPairings returns the comparisons of filters, each pair in the direction that saves CPU.
func filterPairings(f record.Findings) []pairing {
	saves := map[[3]string]bool{}
	key := func(p pairing, level, before string) [3]string {
		return [3]string{level, before, cellBeside(f, p.Cell, p.factor)}
	}
	list := slices.DeleteFunc(pairings(f), func(p pairing) bool { return !p.saved })
	for _, p := range list {
		if p.of == "cpu_server_proxy" && p.Verdict != record.VerdictInvalid {
			saves[key(p, p.level, p.before)] = p.Estimate > 0
		}
	}
	first := map[[3]string]bool{} // the first stays if CPU does not decide
	return slices.DeleteFunc(list, func(p pairing) bool {
		there, back := key(p, p.level, p.before), key(p, p.before, p.level)
		if _, both := saves[back]; both && saves[there] != saves[back] {
			return saves[back]
		}
		if first[back] {
			return true
		}
		first[there] = true
		return false
	})
}

func versionsTable(list []pairing) report.Table {
	t := report.Table{Title: "Versions of Envoy side by side: what changed from one to the other (95% interval)",
		Columns: []report.Column{{Head: "version"}, {Head: "against"}, {Head: "of"}, {Head: "change", Right: true}, {Head: ""}}}
	for _, p := range list {
		if !p.saved {
			t.Rows = append(t.Rows, []report.Text{{S: p.level}, {S: p.before}, {S: p.measure}, p.share(), report.Verdict(p.Verdict)})
		}
	}
	if len(t.Rows) > 0 {
		t.Notes = append(t.Notes, "Above 0 the newer uses more, or is slower. The intervals of a measure are simultaneous over all pairs of versions; verdicts allow for all measures.")
	}
	return t
}

var filtersColumns = []pricedColumn{{"cpu_server_proxy", "CPU per request", 9}, {"memory_server_proxy", "memory", 8}, {"latency_p50", "median latency", 3}}

func filtersTable(f record.Findings, list []pairing) report.Table {
	t := report.Table{Title: "Filters of the server's proxy: what is saved by replacing them (95% interval)",
		Columns: []report.Column{{Head: "filters"}, {Head: "replaced by"}, {Head: "other factors"}}}
	shown := slices.DeleteFunc(slices.Clone(filtersColumns), func(c pricedColumn) bool {
		return !slices.ContainsFunc(list, func(p pairing) bool { return p.of == c.name })
	})
	for _, c := range shown {
		t.Columns = append(t.Columns, right(c.head, c.keep))
	}
	rows := map[[3]string]int{}
	for _, p := range list {
		at := slices.IndexFunc(shown, func(c pricedColumn) bool { return c.name == p.of })
		if at < 0 {
			continue
		}
		key := [3]string{p.level, p.before, cellBeside(f, p.Cell, p.factor)}
		i, seen := rows[key]
		if !seen {
			i = len(t.Rows)
			rows[key] = i
			row := []report.Text{{S: key[0]}, {S: key[1]}, {S: key[2]}}
			for range shown {
				row = append(row, report.Dash)
			}
			t.Rows = append(t.Rows, row)
		}
		t.Rows[i][3+at] = p.share()
	}
	if len(t.Rows) > 0 {
		t.Notes = append(t.Notes, "Shares of what the proxy with the filters uses, or of the latency with it. The intervals of a column are simultaneous. \"no effect\": the whole interval lies within the study's margin.")
	}
	if slices.ContainsFunc(list, func(p pairing) bool { return p.Verdict == record.VerdictInconclusive }) {
		t.Notes = append(t.Notes, report.DoubtNote)
	}
	return t
}

// share formats the figure, if any. For filters, whose table has no verdict column, it includes the
// verdict.
func (p pairing) share() report.Text {
	out := report.Text{S: report.ShareInterval(p.Estimate, p.Low, p.High)}
	switch {
	case p.Verdict == record.VerdictInvalid:
		return report.Text{S: "too few blocks", Style: report.StyleDim}
	case p.saved && p.Verdict == record.VerdictNoEffect:
		return report.Text{S: out.S + " no effect", Style: report.StyleDim}
	case p.saved && p.Verdict == record.VerdictInconclusive:
		return report.Text{S: out.S + " ?", Style: report.StyleDim}
	}
	return out
}

// cellBeside returns the levels of a cell in varying factors except one, or the variants' names if
// they represent it.
func cellBeside(f record.Findings, cell record.Cell, factor string) string {
	rest := cell.With(nil)
	if _, ok := rest[factor]; !ok {
		delete(rest, "variant") // it represents the factor
	}
	delete(rest, factor)
	if words := varyingWords(f, rest); words != "all" {
		return words
	}
	return "–"
}

// maxFilterAnswers limits the number of filters with a sentence; the table has all.
const maxFilterAnswers = 3

// filterAnswers states which filters of the server's proxy use a share of its CPU that others in
// their place would save.
func filterAnswers(f record.Findings) (out []string) {
	told, none, open := 0, 0, 0
	for _, p := range filterPairings(f) {
		switch {
		case p.of != "cpu_server_proxy" || p.Verdict == record.VerdictInvalid:
		case p.Verdict == record.VerdictNoEffect:
			none++
		case p.Verdict != record.VerdictReal:
			open++
		default:
			if told++; told > maxFilterAnswers {
				continue
			}
			where := ""
			if beside := cellBeside(f, p.Cell, p.factor); beside != "–" {
				where = " (" + beside + ")"
			}
			out = append(out, fmt.Sprintf("With %s in place of %s the server's proxy uses %s less CPU per request%s.", p.before, p.level, report.ShareInterval(p.Estimate, p.Low, p.High), where))
		}
	}
	if told > maxFilterAnswers {
		out = append(out, fmt.Sprintf("The table of filters has %s more.", report.Count(int64(told-maxFilterAnswers))))
	}
	comparisons := func(n int) string {
		if told > 0 {
			return words.Plural(n, "other comparison")
		}
		return words.Plural(n, "comparison")
	}
	if none > 0 {
		out = append(out, fmt.Sprintf("%s of the filters' CPU in the server's proxy: no effect beyond the margin.", comparisons(none)))
	}
	if open > 0 {
		out = append(out, fmt.Sprintf("%s of the filters' CPU in the server's proxy: inconclusive; the table has the intervals.", comparisons(open)))
	}
	return out
}

// versionAnswers states which versions improved or regressed, where there is no effect, and what is
// unknown.
func versionAnswers(f record.Findings) (out []string) {
	type step struct {
		level, before             string
		better, worse, none, open []string
	}
	var steps []*step
	for _, p := range pairings(f) {
		if p.saved || p.Verdict == record.VerdictInvalid {
			continue
		}
		i := slices.IndexFunc(steps, func(s *step) bool { return s.level == p.level && s.before == p.before })
		if i < 0 {
			i, steps = len(steps), append(steps, &step{level: p.level, before: p.before})
		}
		s := steps[i]
		switch {
		case p.Verdict == record.VerdictNoEffect:
			s.none = append(s.none, p.measure)
		case p.Verdict != record.VerdictReal:
			s.open = append(s.open, fmt.Sprintf("%s, %s", p.measure, report.ShareInterval(p.Estimate, p.Low, p.High)))
		case p.Estimate > 0:
			s.worse = append(s.worse, fmt.Sprintf("%s by %s", p.measure, report.ShareInterval(p.Estimate, p.Low, p.High)))
		default:
			s.better = append(s.better, fmt.Sprintf("%s by %s", p.measure, report.ShareInterval(-p.Estimate, -p.High, -p.Low)))
		}
	}
	for _, s := range steps {
		var says []string
		say := func(what, separator string, list []string) {
			if len(list) > 0 {
				says = append(says, what+strings.Join(list, separator))
			}
		}
		say("less ", ", ", s.better)
		regression := "a regression: more "
		if len(s.better) > 0 {
			regression = "but " + regression
		}
		say(regression, ", ", s.worse)
		say("no effect beyond the margin: ", ", ", s.none)
		say("inconclusive: ", "; ", s.open)
		out = append(out, fmt.Sprintf("Envoy %s against %s: %s.", s.level, s.before, strings.Join(says, "; ")))
	}
	return out
}
