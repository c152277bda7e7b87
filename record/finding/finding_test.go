package finding

import (
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/record"
)

func TestFind(t *testing.T) {
	table := NewTable([]Def{
		{Name: "a", Section: "plain", Compared: true, Differences: "apart"},
		{Name: "a_saved_by_none"}, {Name: "a_saved_by_*", Section: "filters"}, {Name: "a_*"}, {Name: "top", Source: FromSearch},
	})
	for _, c := range []struct{ name, want, section string }{
		{"a", "a", "plain"}, {"a_overhead", "a_overhead", "apart"}, {"a_saved_by_none", "a_saved_by_none", ""},
		{"a_saved_by_lua", "a_saved_by_*", "filters"}, {"a_saved_by_", "a_*", ""}, {"top", "top", ""}, {"b", "", ""}, {"a_", "", ""},
	} {
		d, ok := table.Find(c.name)
		if d.Name != c.want || d.Section != c.section || ok != (c.want != "") {
			t.Errorf("%s is %q of section %q, want %q of %q", c.name, d.Name, d.Section, c.want, c.section)
		}
	}
	if d := table.Must("a_overhead"); !d.Difference || d.Of != "a" {
		t.Errorf("the difference is %+v", d)
	}
	if got := table.Names(); !slices.Equal(got, []string{"a", "a_overhead", "a_saved_by_none"}) {
		t.Errorf("a study file can name %q", got)
	}
}

func TestFamily(t *testing.T) {
	table := NewTable(AtEach([]record.Quantile{0.5, 0.999, 1}, Def{Name: "a", Compared: true}, func(d *Def) {
		if d.At == 0.5 {
			d.Name = d.Family
		}
		d.Doc = d.At.Head()
	}), []Def{{Name: "a_p90"}})
	var got []string
	for _, d := range table.Family("a") {
		got = append(got, d.Name+" "+d.Doc)
	}
	if want := []string{"a p50", "a_p999 p99.9", "a_max max"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	defer func() {
		if recover() == nil {
			t.Error("an unknown family is no mistake")
		}
	}()
	table.Family("b")
}

func TestScale(t *testing.T) {
	for _, c := range []struct {
		own, unit string
		one       float64
		ok        bool
	}{{UnitMicroseconds, "s", 1e6, true}, {UnitPerRequest, "ms/request", 1e3, true}, {UnitPerRequest, "s/request", 1, false}, {UnitPushes, "pushes", 1, true}, {UnitPushes, "us", 1, false}} {
		if one, ok := Scale(c.own, c.unit); one != c.one || ok != c.ok {
			t.Errorf("a figure of %s in %s: %v, %v", c.own, c.unit, one, ok)
		}
	}
	if !slices.Contains(Scales(UnitBytes), "MiB") || !slices.Equal(Scales(UnitPushes), []string{UnitPushes}) {
		t.Error("the units that a figure may have are not those")
	}
}

func TestTwoDefinitionsOfOneNamePanic(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a table has two findings of one name")
		}
	}()
	NewTable([]Def{{Name: "a", Compared: true}, {Name: "a_overhead"}})
}
