package mesh

import (
	"maps"
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Levers that a cell lacks, that are meaningless there, or that are as installed
// in any spelling, are not named. Other factors are omitted.
func TestLeversOf(t *testing.T) {
	none := LeversOf(nil)
	if err := none.Refuse(); err != nil || len(none.Levels) > 0 {
		t.Errorf("%v, %v", none.Levels, err)
	}
	for _, f := range controlplane.Levers() {
		l := LeversOf(record.Cell{f.Name: "another", "proxies": "50", controlplane.FactorSidecarHosts + "x": "y"})
		if len(l.Levels) != 1 || !l.Named(f.Name) || l.Level(f.Name) != "another" || !l.AnyNamed(f.Scope) {
			t.Errorf("%s set: %v", f.Name, l.Levels)
		}
		for _, level := range []string{"", study.NotApplicable, study.LevelInstalled} {
			l := LeversOf(record.Cell{f.Name: level})
			if len(l.Levels) > 0 || l.Named(f.Name) || l.Level(f.Name) != study.LevelInstalled || l.AnyNamed(f.Scope) {
				t.Errorf("%s at %q: %v", f.Name, level, l.Levels)
			}
			if l := LeversOf(record.Cell{f.Name: "another"}).With(f.Name, level); l.Named(f.Name) || l.Level(f.Name) != study.LevelInstalled {
				t.Errorf("%s at %q in place of another: %v", f.Name, level, l.Levels)
			}
		}
	}
	builtIn := record.Cell{controlplane.FactorPushThrottle: "default", controlplane.FactorRequestLimit: "default", controlplane.FactorIstiodCPU: "none", controlplane.FactorSidecarScope: "none", study.FactorDebounceAfter: "100ms"}
	if l := LeversOf(builtIn); len(l.Levels) != len(builtIn) {
		t.Errorf("istiod's own levels are named too: %v", l.Levels)
	}
	if got := none.Hosts(); !slices.Equal(got, []string{"./*", "istio-system/*"}) {
		t.Errorf("hosts %v", got)
	}
}

func TestEnvVars(t *testing.T) {
	for text, want := range map[string]map[string]string{
		"": {}, "A=1": {"A": "1"}, "A=1; B=x=y;": {"A": "1", "B": "x=y"}, "A=": {"A": ""},
	} {
		got, err := LeversOf(record.Cell{controlplane.FactorIstiodEnv: text}).EnvVars()
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"A", "=1", "A=1;A=2"} {
		if _, err := LeversOf(record.Cell{controlplane.FactorIstiodEnv: text}).EnvVars(); errs.Code(err) != errs.CodeUsage {
			t.Errorf("%q: %v", text, err)
		}
	}
}
