package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/advise/scope/generate"
	"github.com/meshtrial/meshtrial/analysis/words"
)

// RenderSidecars writes what was generated for a terminal. top bounds its
// lists; 0 is no bound.
func RenderSidecars(w io.Writer, r generate.Result, top int, opt Options) error {
	t := newText(opt)
	number := map[string]int{}
	for _, s := range r.Sidecars {
		number[s.Change]++
	}
	t.line(t.paint(StyleStrong, fmt.Sprintf("Sidecars: %s to create, %s to change, %s to delete, %s as they are",
		Count(number[generate.Create]), Count(number[generate.Change]), Count(number[generate.Delete]), Count(number[generate.Same]))))
	from := "From " + r.Sources.String()
	if !r.Observed.First.IsZero() {
		from += fmt.Sprintf(", %s to %s", r.Observed.First.Format("2006-01-02 15:04"), r.Observed.Last.Format("2006-01-02 15:04 UTC"))
	}
	t.wrap("", fmt.Sprintf("%s: %s kept, each a workload and a host that it calls.", from, words.Plural(r.Edges, "dependency")))
	t.list("Rule", r.Rule.Words())
	t.tables(sidecarsTable(r, top), savingTable(r), resourcesTable(r), namespacesTable(r, top), keptTable("Rare, and kept", r.Rare, top),
		keptTable("Hosts that are not known, and kept", r.Unknown, top), oldTable(r, top))
	t.list("Not covered by what was observed", uncovered(r, top))
	t.list("Other ways, not applied", otherWays(r, top))
	notes := append(texts(r.Notes), "A workload that is new, or whose next version calls somebody else, has what the Sidecar of its namespace or of the mesh lets in: generate again before such a rollout.")
	risk := r.Risk()
	t.list("Notes", append(notes, strings.ToUpper(risk[:1])+risk[1:]+"."))
	return t.writeTo(w)
}

// cutRows shortens a table and says so.
func cutRows(t Table, top int) Table {
	if top > 0 && len(t.Rows) > top {
		t.Notes = append(t.Notes, Count(len(t.Rows)-top)+" more are not shown; --json has them.")
		t.Rows = t.Rows[:top]
	}
	return t
}

// few are the first entries of a list in words.
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

func savingTable(r generate.Result) Table {
	p := r.Saving
	s, w := bytesColumn([]int64{p.Now.Dump}), bytesColumn([]int64{p.Now.Wire})
	t := Table{Title: "Predicted, all " + words.Plural(p.Proxies, "sidecar") + " together", Columns: []Column{{Head: "what"}, {Head: "now", Right: true}, {Head: "after", Right: true}, {Head: "less", Right: true}, {Head: "exact", Right: true, Keep: 1}}}
	row := func(what string, now, after, exact float64, show func(float64) string) {
		less := Dash
		if now > 0 {
			less = Text{S: Fixed(100*(now-after)/now, 1) + "%"}
		}
		t.Rows = append(t.Rows, []Text{{S: what}, {S: show(now)}, {S: show(after)}, less, {S: show(exact)}})
	}
	in := func(s Scale) func(float64) string {
		return func(v float64) string { return Fixed(v/s.Div, 1) }
	}
	if p.Now.Dump > 0 {
		row("configuration as JSON, "+s.Unit, float64(p.Now.Dump), float64(p.After.Dump), float64(p.Exact.Dump), in(s))
	}
	if p.Now.Wire > 0 {
		row("on the wire, "+w.Unit, float64(p.Now.Wire), float64(p.After.Wire), float64(p.Exact.Wire), in(w))
	}
	row("clusters, without subsets", float64(p.Now.Clusters), float64(p.After.Clusters), float64(p.Exact.Clusters), func(v float64) string { return Count(int(v)) })
	row("proxies pushed to when a Service changes", p.Now.Pushes, p.After.Pushes, p.Exact.Pushes, func(v float64) string { return Fixed(v, 1) })
	basis := fmt.Sprintf("the bytes that proxies hold of each Service now (%d were read)", p.Read)
	if p.Read == 0 {
		basis = "the number of clusters; no proxy's configuration was read, so nothing is known of bytes"
	}
	t.Notes = append(t.Notes, fmt.Sprintf("From %s. Exact: a Sidecar for every workload with only what it needs; this saves %s%% of what that would.", basis, Fixed(100*p.OfExact, 1)))
	return t
}

// resourcesTable is what memory and CPU come to, with their intervals.
func resourcesTable(r generate.Result) Table {
	t := Table{Title: "Predicted memory and CPU", Columns: []Column{{Head: "what"}, {Head: "now", Right: true}, {Head: "after", Right: true}, {Head: "less", Right: true}}}
	not := map[string][]string{}
	var reasons []string
	for _, c := range r.Saving.Resources {
		if c.Not != "" {
			if not[c.Not] == nil {
				reasons = append(reasons, c.Not)
			}
			not[c.Not] = append(not[c.Not], c.What)
			continue
		}
		show := func(v *model.Interval) Text {
			if v == nil {
				return Dash
			}
			scale, unit, digits := 1.0, c.Unit, 2
			if c.Unit == "bytes" {
				s := bytesColumn([]int64{int64(max(abs(v.Low), abs(v.High)))})
				scale, unit, digits = s.Div, s.Unit, 1
			}
			return Text{S: fmt.Sprintf("%s (%s to %s) %s", Fixed(v.Estimate/scale, digits), Fixed(v.Low/scale, digits), Fixed(v.High/scale, digits), unit)}
		}
		t.Rows = append(t.Rows, []Text{{S: c.What}, show(c.Now), show(c.After), show(c.Less)})
		if note := "From " + c.Basis + "."; !slices.Contains(t.Notes, note) {
			t.Notes = append(t.Notes, note)
		}
	}
	for _, why := range reasons {
		t.Rows = append(t.Rows, []Text{{S: strings.Join(not[why], ", ")}, Dash, Dash, {"not predicted", StyleDim}})
		t.Notes = append(t.Notes, "Not predicted: "+strings.Join(not[why], ", ")+": "+why+".")
	}
	return t
}

func abs(v float64) float64 { return max(v, -v) }

func namespacesTable(r generate.Result, top int) Table {
	if r.Saving.Now.Dump == 0 || len(r.Saving.Namespaces) < 2 {
		return Table{}
	}
	s := bytesColumn([]int64{r.Saving.Now.Dump})
	t := Table{Title: "Predicted by namespace, " + s.Unit, Columns: []Column{{Head: "namespace"}, {Head: "sidecars", Right: true, Keep: 1}, {Head: "now", Right: true}, {Head: "after", Right: true}}}
	for _, n := range r.Saving.Namespaces {
		t.Rows = append(t.Rows, []Text{{S: n.Namespace}, {S: Count(n.Proxies)}, s.Kilo(n.Now.Dump), s.Kilo(n.After.Dump)})
	}
	return cutRows(t, top)
}

// cutList shortens a list and says so.
func cutList(list []string, top int) []string {
	if top > 0 && len(list) > top {
		return append(list[:top:top], Count(len(list)-top)+" more are not shown; --json has them.")
	}
	return list
}

func uncovered(r generate.Result, top int) []string {
	var out []string
	for _, o := range r.Open {
		line, why, risk, done := r.Words(o)
		if where := o.Workload.String(); where != "" {
			line += ", " + where
		}
		line += ": " + why
		if len(o.Hosts) > 0 {
			line += " (" + few(o.Hosts) + ")"
		}
		out = append(out, fmt.Sprintf("%s. Done: %s. Risk: %s.", line, done, risk))
	}
	return cutList(out, top)
}

func keptTable(title string, list []generate.Kept, top int) Table {
	t := Table{Title: title, Columns: []Column{{Head: "from"}, {Head: "host"}, {Head: "calls", Right: true, Keep: 1}, {Head: "last seen", Keep: 2}, {Head: "why", Keep: 3}}}
	for _, k := range list {
		t.Rows = append(t.Rows, []Text{{S: k.From.String()}, {S: k.Host}, {S: Count(int(k.Count))}, lastSeen(k.Edge), {S: k.Because()}})
	}
	return cutRows(t, top)
}

func lastSeen(e generate.Edge) Text {
	if e.Last.IsZero() {
		return Dash
	}
	return Text{S: e.Last.Format("2006-01-02 15:04")}
}

func oldTable(r generate.Result, top int) Table {
	t := Table{Title: "Too old, and not kept", Columns: []Column{{Head: "from"}, {Head: "host"}, {Head: "calls", Right: true, Keep: 1}, {Head: "last seen"}}}
	for _, e := range r.Old {
		t.Rows = append(t.Rows, []Text{{S: e.From.String()}, {S: e.Host}, {S: Count(int(e.Count))}, lastSeen(e)})
	}
	return cutRows(t, top)
}

func otherWays(r generate.Result, top int) []string {
	var out []string
	for _, o := range r.Others {
		line := o.Kind + ": " + o.Value
		if o.Kind == "discoverySelectors" {
			line = o.Kind + ": leave out " + o.Value
		}
		if len(o.Hosts) > 0 {
			line += " for " + few(o.Hosts)
		}
		out = append(out, line+": "+o.String()+".")
	}
	return cutList(out, top)
}
