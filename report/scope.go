package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/meshtrial/meshtrial/scope"
)

// RenderScope writes a report on the size of configuration for a terminal.
// top bounds the lists of proxies and resources; 0 is no bound.
func RenderScope(w io.Writer, r scope.Report, top int, opt Options) error {
	if opt.Width <= 0 {
		opt.Width = defaultWidth
	}
	opt.Width = max(opt.Width, 40)
	t := &textWriter{opt: opt}
	title := "Configuration of " + plural(len(r.Proxies), "proxy")
	if len(r.Proxies) != 1 {
		title = "Configuration of " + count(len(r.Proxies)) + " proxies"
	}
	t.line(t.paint(styleStrong, title+", "+scaleFor("bytes", float64(r.DumpBytes)).value(float64(r.DumpBytes))+" as JSON"))
	if r.WireBytes > 0 {
		t.wrap("", scaleFor("bytes", float64(r.WireBytes)).value(float64(r.WireBytes))+" on the wire.")
	}
	for _, tb := range []table{scopeProxies(r, top), scopeTypes(r), scopeOwners(r), scopeResources(r, top), scopeUncalled(r)} {
		if len(tb.Rows) > 0 {
			t.line("")
			t.table(tb)
		}
	}
	t.list("Notes", r.Notes)
	_, err := io.WriteString(w, t.b.String())
	return err
}

// bytesColumn scales the values of a column alike.
func bytesColumn(values []int64) scale {
	largest := 0.0
	for _, v := range values {
		largest = math.Max(largest, float64(v))
	}
	return scaleFor("bytes", largest)
}

// kilo shows bytes in the column's unit with one decimal, so that small and
// large values can be compared.
func (s scale) kilo(bytes int64) text { return text{S: fixed(float64(bytes)/s.Div, 1)} }

func share(part, whole int64) text {
	if whole == 0 {
		return text{"–", styleDim}
	}
	return text{S: fixed(100*float64(part)/float64(whole), 1) + "%"}
}

// wired is a table's column of bytes on the wire; absent where nobody told.
type wired struct {
	scale
	told bool
}

func wireColumn(r scope.Report) wired {
	return wired{scale: bytesColumn([]int64{r.WireBytes}), told: r.WireBytes > 0}
}

func (w wired) head(t *table) {
	if w.told {
		t.Columns = append(t.Columns, column{"wire, " + w.Unit, true, 4})
	}
}

func (w wired) cell(row []text, bytes int64) []text {
	switch {
	case !w.told:
		return row
	case bytes == 0:
		return append(row, text{"–", styleDim})
	}
	return append(row, w.kilo(bytes))
}

func scopeProxies(r scope.Report, top int) table {
	var values []int64
	for _, p := range r.Proxies {
		values = append(values, p.DumpBytes)
	}
	s := bytesColumn(values)
	t := table{Title: "By proxy, " + s.Unit, Columns: []column{{"proxy", false, 0}, {"total", true, 0}}}
	for _, typ := range r.Types {
		t.Columns = append(t.Columns, column{typ.Type, true, 1 + len(r.Types) - len(t.Columns) + 2})
	}
	t.Columns = append(t.Columns, column{"resources", true, 1})
	w := wireColumn(r)
	w.head(&t)
	alike := slices.ContainsFunc(r.Proxies, func(p scope.Proxy) bool { return p.Alike > 0 })
	if alike {
		t.Columns = append(t.Columns, column{"stands for", true, 2})
	}
	for i, p := range r.Proxies {
		if top > 0 && i == top {
			t.Notes = append(t.Notes, count(len(r.Proxies)-top)+" more are not shown; --json has them.")
			break
		}
		row := []text{{S: p.Name}, s.kilo(p.DumpBytes)}
		for _, typ := range r.Types {
			cell := text{"–", styleDim}
			for _, have := range p.Types {
				if have.Type == typ.Type {
					cell = s.kilo(have.DumpBytes)
				}
			}
			row = append(row, cell)
		}
		row = w.cell(append(row, text{S: count(p.Resources)}), p.WireBytes)
		if alike && p.Alike > 0 {
			row = append(row, text{S: count(p.Alike)})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func countSimulated(r scope.Report) int {
	n := 0
	for _, p := range r.Proxies {
		if p.Simulated {
			n++
		}
	}
	return n
}

func scopeTypes(r scope.Report) table {
	s := bytesColumn([]int64{r.DumpBytes})
	t := table{Title: "By type, " + s.Unit, Columns: []column{{"type", false, 0}, {"bytes", true, 0}, {"share", true, 0}, {"resources", true, 2}, {"not sent", true, 1}}}
	w := wireColumn(r)
	w.head(&t)
	static := int64(0)
	for _, x := range r.Types {
		t.Rows = append(t.Rows, w.cell([]text{{S: x.Type}, s.kilo(x.DumpBytes), share(x.DumpBytes, r.DumpBytes), {S: count(x.Resources)}, s.kilo(x.StaticBytes)}, x.WireBytes))
		static += x.StaticBytes
	}
	t.Rows = append(t.Rows, w.cell([]text{{"total", styleStrong}, s.kilo(r.DumpBytes), {S: "100%"}, {}, s.kilo(static)}, r.WireBytes))
	if simulated := countSimulated(r); simulated > 0 {
		t.Notes = append(t.Notes, "Of "+plural(simulated, "simulated sidecar")+" JSON is what Envoy would print of the same resources; there is no bootstrap.")
	}
	t.Notes = append(t.Notes, "Not sent by istiod: the bootstrap and what it holds, copies of what stands in a listener, the frame of the dump.")
	return t
}

func scopeOwners(r scope.Report) table {
	values := []int64{0}
	for _, o := range r.Owners {
		values = append(values, o.DumpBytes)
	}
	s := bytesColumn(values)
	t := table{Title: "Who brought it, " + s.Unit, Columns: []column{{"owner", false, 0}, {"bytes", true, 0}, {"share", true, 0}, {"proxies", true, 3}, {"resources", true, 2}, {"shapes", true, 1}}}
	w := wireColumn(r)
	w.head(&t)
	for _, o := range r.Owners {
		st := styleNone
		switch o.Owner.Kind {
		case scope.KindMesh, scope.KindDump, scope.KindShared, scope.KindUnattributed:
			st = styleDim
		}
		shapes := text{}
		if o.ShapedBytes > 0 {
			shapes = s.kilo(o.ShapedBytes)
		}
		t.Rows = append(t.Rows, w.cell([]text{{o.Owner.String(), st}, s.kilo(o.DumpBytes), share(o.DumpBytes, r.DumpBytes), {S: count(o.Proxies)}, {S: count(o.Resources)}, shapes}, o.WireBytes))
	}
	if x := r.OtherOwners; x != nil {
		t.Rows = append(t.Rows, w.cell([]text{{plural(x.Owners, "more owner"), styleDim}, s.kilo(x.DumpBytes), share(x.DumpBytes, r.DumpBytes), {}, {}, {}}, x.WireBytes))
	}
	t.Rows = append(t.Rows, w.cell([]text{{"total", styleStrong}, s.kilo(r.DumpBytes), {S: "100%"}, {}, {}, {}}, r.WireBytes))
	t.Notes = append(t.Notes, "Mesh is istiod's and the injector's own; shared serves several owners; unattributed is explained by no metadata, often an EnvoyFilter's. "+
		"Shapes: bytes counted with others, in resources that this one changed.")
	if r.Uncalled == nil {
		t.Notes = append(t.Notes, "Which of it a workload's traffic uses cannot be known from configuration; the proxies' counters tell what was called.")
	}
	return t
}

func scopeResources(r scope.Report, top int) table {
	if len(r.Proxies) != 1 {
		return table{}
	}
	largest := r.Proxies[0].Largest
	if top > 0 {
		largest = largest[:min(top, len(largest))]
	}
	var values []int64
	for _, x := range largest {
		values = append(values, x.DumpBytes)
	}
	s := bytesColumn(values)
	t := table{Title: "Largest resources, " + s.Unit, Columns: []column{{"type", false, 0}, {"resource", false, 0}, {"bytes", true, 0}, {"owner", false, 1}}}
	for _, x := range largest {
		t.Rows = append(t.Rows, []text{{S: x.Type}, {S: x.Name}, s.kilo(x.DumpBytes), {S: x.Owner.String()}})
	}
	return t
}

func scopeUncalled(r scope.Report) table {
	u := r.Uncalled
	if u == nil {
		return table{}
	}
	s := bytesColumn([]int64{u.DumpBytes})
	t := table{Title: "Held and never called, clusters and endpoints, " + s.Unit, Columns: []column{{"owner", false, 0}, {"bytes", true, 0}, {"clusters", true, 1}, {"proxies", true, 2}}}
	for _, o := range u.Owners {
		t.Rows = append(t.Rows, []text{{S: o.Owner.String()}, s.kilo(o.DumpBytes), {S: count(o.Clusters)}, {S: count(o.Proxies)}})
	}
	t.Rows = append(t.Rows, []text{{"all outbound clusters never called", styleStrong}, s.kilo(u.NeverBytes), {S: count(u.Never)}})
	t.Notes = append(t.Notes, fmt.Sprintf("Of %s with %s. Counted from the start of each proxy, at the endpoints it has now: a call that has not come yet, or whose endpoints are gone, is not seen.",
		plural(u.Clusters, "outbound cluster"), s.value(float64(u.DumpBytes))))
	if left := u.OwnersInTotal - len(u.Owners); left > 0 {
		t.Notes = append(t.Notes, plural(left, "more owner")+" not shown.")
	}
	return t
}

// RenderScopeCSV writes tidy rows: kind is type, owner, resource or cluster,
// each for one proxy.
func RenderScopeCSV(w io.Writer, r scope.Report) error {
	out := csv.NewWriter(w)
	rows := [][]string{{"proxy", "kind", "type", "name", "owner_kind", "owner_namespace", "owner_name", "resources", "dump_bytes", "wire_bytes", "shaped_bytes", "calls"}}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	add := func(p, kind, typ, name string, o scope.Owner, resources string, dump, wire int64, shaped, calls string) {
		rows = append(rows, []string{csvText(p), kind, typ, csvText(name), csvText(o.Kind), csvText(o.Namespace), csvText(o.Name), resources, number(dump), number(wire), shaped, calls})
	}
	for _, p := range r.Proxies {
		for _, x := range p.Types {
			add(p.Name, "type", x.Type, "", scope.Owner{}, strconv.Itoa(x.Resources), x.DumpBytes, x.WireBytes, "", "")
		}
		for _, x := range p.Owners {
			add(p.Name, "owner", "", "", x.Owner, strconv.Itoa(x.Resources), x.DumpBytes, x.WireBytes, number(x.ShapedBytes), "")
		}
		for _, x := range p.Largest {
			add(p.Name, "resource", x.Type, x.Name, x.Owner, "1", x.DumpBytes, x.WireBytes, "", "")
		}
		for _, x := range p.Clusters {
			if x.Calls != nil {
				add(p.Name, "cluster", "", x.Name, x.Owner, "", x.DumpBytes, x.WireBytes, "", number(*x.Calls))
			}
		}
	}
	return out.WriteAll(rows)
}
