package report

import (
	"fmt"
	"io"
	"slices"

	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/analysis/words"
)

// RenderScope writes a report on the size of configuration for a terminal. top limits
// the lists of proxies and resources; 0 means no limit.
func RenderScope(w io.Writer, r scope.Report, top int, opt Options) error {
	t := newText(opt)
	t.line(t.paint(StyleStrong, "Configuration of "+words.Plural(len(r.Proxies), "proxy")+", "+ScaleFor("bytes", float64(r.DumpBytes)).Value(float64(r.DumpBytes))+" as JSON"))
	if r.WireBytes > 0 {
		t.wrap("", ScaleFor("bytes", float64(r.WireBytes)).Value(float64(r.WireBytes))+" on the wire.")
	}
	t.tables(scopeProxies(r, top), scopeTypes(r), scopeOwners(r), scopeResources(r, top), scopeUncalled(r))
	t.list("Notes", texts(r.Notes))
	return t.writeTo(w)
}

// bytesScale returns a common scale for bytes of things.
func bytesScale[T any](things []T, bytes func(T) int64) Scale {
	all := make([]float64, len(things))
	for i, thing := range things {
		all[i] = float64(bytes(thing))
	}
	return ScaleFor("bytes", all...)
}

// Kilo formats bytes in the column's unit with one decimal, so that small and large
// values can be compared.
func (s Scale) Kilo(bytes int64) Text { return Text{S: Fixed(float64(bytes)/s.Div, 1)} }

func Share(part, whole int64) Text {
	if whole == 0 {
		return Dash
	}
	return Text{S: Fixed(100*float64(part)/float64(whole), 1) + "%"}
}

// wire is a column of bytes on the wire, which are 0 if they are unknown.
type wire struct{ Scale }

func wireOf(r scope.Report) wire { return wire{ScaleFor("bytes", float64(r.WireBytes))} }

func (w wire) column() Column { return Column{Head: "wire, " + w.Unit, Right: true, Keep: 4} }

func (w wire) cell(bytes int64) Text {
	if bytes == 0 {
		return Dash
	}
	return w.Kilo(bytes)
}

func scopeProxies(r scope.Report, top int) Table {
	s, w := bytesScale(r.Proxies, func(p scope.Proxy) int64 { return p.DumpBytes }), wireOf(r)
	t := Table{Title: "By proxy, " + s.Unit, Columns: []Column{{Head: "proxy"}, {Head: "total", Right: true}}}
	for _, typ := range r.Types {
		t.Columns = append(t.Columns, Column{Head: typ.Type, Right: true, Keep: 1 + len(r.Types) - len(t.Columns) + 2})
	}
	t.Columns = append(t.Columns, Column{Head: "resources", Right: true, Keep: 1}, w.column(), Column{Head: "stands for", Right: true, Keep: 2})
	for _, p := range r.Proxies {
		row := []Text{{S: p.Name}, s.Kilo(p.DumpBytes)}
		for _, typ := range r.Types {
			cell := Dash
			for _, have := range p.Types {
				if have.Type == typ.Type {
					cell = s.Kilo(have.DumpBytes)
				}
			}
			row = append(row, cell)
		}
		t.Rows = append(t.Rows, append(row, Text{S: Count(p.Resources)}, w.cell(p.WireBytes), some(float64(p.Alike), whole)))
	}
	return cutRows(withoutEmpty(t), top)
}

// countSimulated counts the proxies that are simulated Envoys.
func countSimulated(r scope.Report) int {
	n := 0
	for _, p := range r.Proxies {
		if p.Simulated && p.Kind != scope.NodeZtunnel {
			n++
		}
	}
	return n
}

// ofZtunnels reports whether no proxy is an Envoy, so that remarks about Envoys are
// out of place.
func ofZtunnels(r scope.Report) bool {
	return len(r.Proxies) > 0 && !slices.ContainsFunc(r.Proxies, func(p scope.Proxy) bool { return p.Kind != scope.NodeZtunnel })
}

func scopeTypes(r scope.Report) Table {
	s, w := ScaleFor("bytes", float64(r.DumpBytes)), wireOf(r)
	t := Table{Title: "By type, " + s.Unit, Columns: []Column{{Head: "type"}, {Head: "bytes", Right: true}, {Head: "share", Right: true}, {Head: "resources", Right: true, Keep: 2}, {Head: "not sent", Right: true, Keep: 1}, w.column()}}
	static := int64(0)
	for _, x := range r.Types {
		t.Rows = append(t.Rows, []Text{{S: x.Type}, s.Kilo(x.DumpBytes), Share(x.DumpBytes, r.DumpBytes), {S: Count(x.Resources)}, s.Kilo(x.StaticBytes), w.cell(x.WireBytes)})
		static += x.StaticBytes
	}
	t.Rows = append(t.Rows, []Text{{"total", StyleStrong}, s.Kilo(r.DumpBytes), {S: "100%"}, {}, s.Kilo(static), w.cell(r.WireBytes)})
	if simulated := countSimulated(r); simulated > 0 {
		t.Notes = append(t.Notes, "For "+words.Plural(simulated, "simulated sidecar")+", JSON is what Envoy would print for the same resources, without a bootstrap.")
	}
	if !ofZtunnels(r) {
		t.Notes = append(t.Notes, "Not sent by istiod: the bootstrap and its contents, copies of listener contents, the framing of the dump.")
	}
	return withoutEmpty(t)
}

// columnShapes is omitted from the table of owners if none changes others' resources.
const columnShapes = "shapes"

func scopeOwners(r scope.Report) Table {
	s, w := bytesScale(r.Owners, func(o scope.OwnerTotal) int64 { return o.DumpBytes }), wireOf(r)
	t := Table{Title: "By owner, " + s.Unit, Columns: []Column{{Head: "owner"}, {Head: "bytes", Right: true}, {Head: "share", Right: true}, {Head: "proxies", Right: true, Keep: 3}, {Head: "resources", Right: true, Keep: 2}, {Head: columnShapes, Right: true, Keep: 1}, w.column()}}
	for _, o := range r.Owners {
		st := StyleNone
		switch o.Owner.Kind {
		case scope.KindMesh, scope.KindDump, scope.KindShared, scope.KindUnattributed:
			st = StyleDim
		}
		shapes := Text{}
		if o.ShapedBytes > 0 {
			shapes = s.Kilo(o.ShapedBytes)
		}
		t.Rows = append(t.Rows, []Text{{o.Owner.String(), st}, s.Kilo(o.DumpBytes), Share(o.DumpBytes, r.DumpBytes), {S: Count(o.Proxies)}, {S: Count(o.Resources)}, shapes, w.cell(o.WireBytes)})
	}
	if x := r.OtherOwners; x != nil {
		t.Rows = append(t.Rows, []Text{{words.Plural(x.Owners, "more owner"), StyleDim}, s.Kilo(x.DumpBytes), Share(x.DumpBytes, r.DumpBytes), {}, {}, {}, w.cell(x.WireBytes)})
	}
	t.Rows = append(t.Rows, []Text{{"total", StyleStrong}, s.Kilo(r.DumpBytes), {S: "100%"}, {}, {}, {}, w.cell(r.WireBytes)})
	if t = withoutEmpty(t); ofZtunnels(r) {
		return t
	}
	about := "Mesh: istiod's and the injector's own. Shared: serves several owners. Unattributed: no metadata explains it, often an EnvoyFilter."
	if slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Head == columnShapes }) {
		about += " Shapes: bytes counted with others, in resources that this one changed."
	}
	t.Notes = append(t.Notes, about)
	if r.Uncalled == nil {
		t.Notes = append(t.Notes, "Configuration does not show which part a workload's traffic uses; the proxies' counters show what was called.")
	}
	return t
}

func scopeResources(r scope.Report, top int) Table {
	if len(r.Proxies) != 1 {
		return Table{}
	}
	largest := r.Proxies[0].Largest
	if top > 0 {
		largest = largest[:min(top, len(largest))]
	}
	s := bytesScale(largest, func(x scope.Resource) int64 { return x.DumpBytes })
	t := Table{Title: "Largest resources, " + s.Unit, Columns: []Column{{Head: "type"}, {Head: "resource"}, {Head: "bytes", Right: true}, {Head: "owner", Keep: 1}}}
	for _, x := range largest {
		t.Rows = append(t.Rows, []Text{{S: x.Type}, {S: x.Name}, s.Kilo(x.DumpBytes), {S: x.Owner.String()}})
	}
	return t
}

func scopeUncalled(r scope.Report) Table {
	u := r.Uncalled
	if u == nil {
		return Table{}
	}
	s := ScaleFor("bytes", float64(u.DumpBytes))
	t := Table{Title: "Configured but never called, clusters and endpoints, " + s.Unit, Columns: []Column{{Head: "owner"}, {Head: "bytes", Right: true}, {Head: "clusters", Right: true, Keep: 1}, {Head: "proxies", Right: true, Keep: 2}}}
	for _, o := range u.Owners {
		t.Rows = append(t.Rows, []Text{{S: o.Owner.String()}, s.Kilo(o.DumpBytes), {S: Count(o.Clusters)}, {S: Count(o.Proxies)}})
	}
	t.Rows = append(t.Rows, []Text{{"all outbound clusters never called", StyleStrong}, s.Kilo(u.NeverBytes), {S: Count(u.Never)}})
	t.Notes = append(t.Notes, fmt.Sprintf("Of %s with %s. Counted since each proxy started, for its current endpoints: calls still to come, or to removed endpoints, are not seen.",
		words.Plural(u.Clusters, "outbound cluster"), s.Value(float64(u.DumpBytes))))
	if left := u.OwnersInTotal - len(u.Owners); left > 0 {
		t.Notes = append(t.Notes, words.Plural(left, "more owner")+" not shown.")
	}
	return t
}
