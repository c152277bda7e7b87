package mesh

import (
	"maps"
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// A lever that a cell lacks, or that means nothing there, stands at its
// default; what is no lever is left out.
func TestLeversOf(t *testing.T) {
	defaults := LeversOf(nil)
	if err := defaults.Refuse(); err != nil {
		t.Error(err)
	}
	for _, f := range study.Levers() {
		l := LeversOf(record.Cell{f.Name: "another", "proxies": "50", study.FactorSidecarHosts + "x": "y"})
		if len(l.Levels) != len(study.Levers()) {
			t.Errorf("%v", l.Levels)
		}
		for name, level := range l.Levels {
			if want := defaults.Level(name); name == f.Name && level != "another" || name != f.Name && level != want {
				t.Errorf("%s with %s set: %s", name, f.Name, level)
			}
		}
		if l := LeversOf(record.Cell{f.Name: study.NotApplicable}); l.Level(f.Name) != f.Default {
			t.Errorf("%s that means nothing: %s", f.Name, l.Level(f.Name))
		}
	}
	if got := defaults.Hosts(); !slices.Equal(got, []string{"./*", "istio-system/*"}) {
		t.Errorf("hosts %v", got)
	}
}

func TestEnvVars(t *testing.T) {
	for text, want := range map[string]map[string]string{
		"none": {}, "": {}, "A=1": {"A": "1"}, "A=1; B=x=y;": {"A": "1", "B": "x=y"}, "A=": {"A": ""},
	} {
		got, err := LeversOf(record.Cell{study.FactorIstiodEnv: text}).EnvVars()
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"A", "=1", "A=1;A=2"} {
		if _, err := LeversOf(record.Cell{study.FactorIstiodEnv: text}).EnvVars(); errs.Code(err) != errs.CodeUsage {
			t.Errorf("%q: %v", text, err)
		}
	}
}
