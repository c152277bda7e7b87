package report

import (
	"strings"
	"testing"
)

// Column heads may contain commas, so omitted columns are separated by semicolons. Two of one head are named once.
func TestColumnsLeftOut(t *testing.T) {
	w := &textWriter{opt: Options{Width: 60}}
	w.table(Table{Title: "What proxies take", Columns: []Column{{Head: "carried by"}, {Head: "memory of all proxies, of nodes too, GB", Keep: 1}, {Head: "CPU of all proxies, of nodes too, cores", Keep: 2},
		{Head: "CPU of all proxies, of nodes too, cores", Keep: 3}}, Rows: [][]Text{{{S: "ambient, without any waypoint"}, {S: "1"}, {S: "2"}, {S: "3"}}}})
	want := "Columns omitted for width: CPU of all proxies, of nodes too, cores; memory of all proxies, of nodes too, GB."
	if got := strings.Join(strings.Fields(w.b.String()), " "); !strings.Contains(got, want) {
		t.Errorf("%q is not in %q", want, got)
	}
}
