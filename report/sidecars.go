package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/meshtrial/meshtrial/advise/scope/generate"
	"github.com/meshtrial/meshtrial/analysis/words"
)

// RenderSidecars writes what was generated for a terminal. top limits its lists; 0 means no
// limit.
func RenderSidecars(w io.Writer, r generate.Result, top int, opt Options) error {
	t := newText(opt)
	number := map[string]int{}
	for _, s := range r.Sidecars {
		number[s.Change]++
	}
	t.line(t.paint(StyleStrong, fmt.Sprintf("Sidecars: %s to create, %s to change, %s to delete, %s as they are",
		Count(number[generate.Create]), Count(number[generate.Change]), Count(number[generate.Delete]), Count(number[generate.Same]))))
	from := "From " + strings.Join(r.Sources, ", ")
	if !r.Observed.First.IsZero() {
		from += fmt.Sprintf(", %s to %s", r.Observed.First.Format("2006-01-02 15:04"), r.Observed.Last.Format("2006-01-02 15:04 UTC"))
	}
	t.wrap("", fmt.Sprintf("%s: %s kept, of a workload to a host.", from, words.Plural(r.Edges, "call")))
	t.list("Rule", r.Rules())
	t.tables(sidecarsTable(r, top), savingTable(r.Saving), oldTable(r, top))
	t.list("Not covered by what was observed", uncovered(r, top))
	t.list("Notes", append(r.Notes, "A workload that is new, or whose next version calls somebody else, has what the Sidecar of its "+
		"namespace or of the mesh lets in: generate again before such a rollout.", r.Risk()))
	return t.writeTo(w)
}

// cutRows shortens a table and notes that.
func cutRows(t Table, top int) Table {
	if top > 0 && len(t.Rows) > top {
		t.Notes = append(t.Notes, Count(len(t.Rows)-top)+" more are not shown; --json has them.")
		t.Rows = t.Rows[:top]
	}
	return t
}

// few formats the first entries of a list.
func few(list []string) string {
	const most = 3
	if len(list) > most {
		return strings.Join(list[:most], ", ") + fmt.Sprintf(" and %d more", len(list)-most)
	}
	return strings.Join(list, ", ")
}

func sidecarsTable(r generate.Result, top int) Table {
	t := Table{Title: "Sidecars", Columns: []Column{{Head: "Sidecar"}, {Head: "change"}, {Head: "workloads", Right: true}, {Head: "hosts", Right: true}, {Head: "let in", Keep: 2}, {Head: "why", Keep: 1}}}
	for _, s := range r.Sidecars {
		t.Rows = append(t.Rows, []Text{{S: s.String()}, {S: s.Change}, {S: Count(len(s.Workloads))}, {S: Count(len(s.Hosts))}, {S: few(s.Hosts)}, {S: s.Because()}})
	}
	return cutRows(t, top)
}

func savingTable(p generate.Prediction) Table {
	t := Table{Title: "Predicted for " + words.Plural(p.Proxies, "sidecar"), Columns: []Column{{Head: "what"}, {Head: "now", Right: true}, {Head: "after", Right: true}, {Head: "less", Right: true}, {Head: "exact", Right: true, Keep: 1}}}
	row := func(what string, digits int, now, after, exact float64) {
		less := Dash
		if now > 0 {
			less = Text{S: Fixed(100*(now-after)/now, 1) + "%"}
		}
		t.Rows = append(t.Rows, []Text{{S: what}, {S: Fixed(now, digits)}, {S: Fixed(after, digits)}, less, {S: Fixed(exact, digits)}})
	}
	basis := "the number of clusters; no proxy's configuration was read, so nothing is known of bytes"
	if p.Read > 0 {
		s := ScaleFor("bytes", float64(p.Now.Dump))
		row("configuration as JSON, "+s.Unit, 1, float64(p.Now.Dump)/s.Div, float64(p.After.Dump)/s.Div, float64(p.Exact.Dump)/s.Div)
		basis = fmt.Sprintf("the bytes that proxies hold of each Service now (%s read)", words.Plural(p.Read, "proxy"))
	}
	row("clusters, without subsets", 0, float64(p.Now.Clusters), float64(p.After.Clusters), float64(p.Exact.Clusters))
	row("proxies pushed to when a Service changes", 1, p.Now.Pushes, p.After.Pushes, p.Exact.Pushes)
	exact := fmt.Sprintf("From %s. Exact: a Sidecar for every workload with only what it needs", basis)
	if p.Exact.Dump < p.Now.Dump || p.Exact.Clusters < p.Now.Clusters {
		exact += fmt.Sprintf("; this saves %s%% of what that would", Fixed(100*p.OfExact, 1))
	}
	t.Notes = append(t.Notes, exact+".")
	return t
}

func oldTable(r generate.Result, top int) Table {
	t := Table{Title: "Too old, and not kept", Columns: []Column{{Head: "from"}, {Head: "host"}, {Head: "calls", Right: true, Keep: 1}, {Head: "last seen"}}}
	for _, e := range r.Old {
		t.Rows = append(t.Rows, []Text{{S: e.From.String()}, {S: e.Host}, {S: Count(int(e.Count))}, {S: e.Last.Format("2006-01-02 15:04")}})
	}
	return cutRows(t, top)
}

func uncovered(r generate.Result, top int) (out []string) {
	for _, o := range r.Open {
		name, why, done := o.Words()
		if where := o.Workload.String(); where != "" {
			name += ", " + where
		}
		if len(o.Hosts) > 0 {
			why += " (" + few(o.Hosts) + ")"
		}
		out = append(out, fmt.Sprintf("%s: %s. Done: %s.", name, why, done))
	}
	if top > 0 && len(out) > top {
		out = append(out[:top:top], Count(len(out)-top)+" more are not shown; --json has them.")
	}
	return out
}
