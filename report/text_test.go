package report

import (
	"strings"
	"testing"
)

// Column heads may contain commas, so omitted columns are separated by semicolons.
func TestColumnsLeftOut(t *testing.T) {
	w := &textWriter{opt: Options{Width: 60}}
	w.table(Table{Title: "What proxies take", Columns: []Column{{Head: "carried by"}, {Head: "memory of all proxies, of nodes too, GB", Keep: 1}, {Head: "CPU of all proxies, of nodes too, cores", Keep: 2}},
		Rows: [][]Text{{{S: "ambient, without any waypoint"}, {S: "1"}, {S: "2"}}}})
	want := "Columns omitted for width: CPU of all proxies, of nodes too, cores; memory of all proxies, of nodes too, GB."
	if got := strings.Join(strings.Fields(w.b.String()), " "); !strings.Contains(got, want) {
		t.Errorf("%q is not in %q", want, got)
	}
}

// Two omitted columns of one head are named once.
func TestColumnsOfOneHeadLeftOut(t *testing.T) {
	w := &textWriter{opt: Options{Width: 20}}
	w.table(Table{Title: "Sources", Columns: []Column{{Head: "stage"}, {Head: "from", Keep: 1}, {Head: "from", Keep: 2}},
		Rows: [][]Text{{{S: "debounce"}, {S: "istiod's log of changes"}, {S: "pilot_debounce_time"}}}})
	if got := strings.Join(strings.Fields(w.b.String()), " "); !strings.Contains(got, "omitted for width: from.") {
		t.Errorf("%q", got)
	}
}
