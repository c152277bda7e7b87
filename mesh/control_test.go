package mesh

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/record"
)

// Every field of Levers that a cell decides has a factor, and no factor sets
// another's field.
func TestLeversOf(t *testing.T) {
	defaults := LeversOf(nil)
	if defaults.DebounceAfter != "100ms" || defaults.PushThrottle != LevelDefault || !slices.Equal(defaults.SidecarHosts, []string{"./*", "istio-system/*"}) {
		t.Errorf("defaults %+v", defaults)
	}
	set := map[string]bool{}
	for _, f := range leverFactors {
		l := LeversOf(record.Cell{f.factor: "another", "proxies": "50"})
		a, b := reflect.ValueOf(defaults), reflect.ValueOf(l)
		var moved []string
		for i := range a.NumField() {
			if !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
				moved = append(moved, a.Type().Field(i).Name)
			}
		}
		if len(moved) != 1 || set[moved[0]] {
			t.Errorf("factor %s sets %v", f.factor, moved)
			continue
		}
		set[moved[0]] = true
	}
	fields := reflect.TypeFor[Levers]()
	for i := range fields.NumField() {
		if name := fields.Field(i).Name; !set[name] && name != "Namespaces" && name != "Workload" {
			t.Errorf("no factor sets %s", name)
		}
	}
}

func TestEnvVars(t *testing.T) {
	for text, want := range map[string]map[string]string{
		"none": {}, "": {}, "A=1": {"A": "1"}, "A=1; B=x=y;": {"A": "1", "B": "x=y"}, "A=": {"A": ""},
	} {
		got, err := Levers{Env: text}.EnvVars()
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"A", "=1", "A=1;A=2"} {
		if _, err := (Levers{Env: text}).EnvVars(); errs.Code(err) != errs.CodeUsage {
			t.Errorf("%q: %v", text, err)
		}
	}
}
