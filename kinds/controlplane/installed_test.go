package controlplane

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Every lever stays as installed unless a study says otherwise, and its usual value is one of its
// levels.
func TestLeversAsInstalled(t *testing.T) {
	cell := controlPlan(t, "control: {}\n").Cells[0]
	for _, f := range Levers() {
		if f.Default != study.LevelInstalled || f.Sets(f.Default) || f.Sets("") || f.Sets(study.NotApplicable) || !f.Sets("something") {
			t.Errorf("%s: default %q", f.Name, f.Default)
		}
		if got, err := f.Canonical(study.LevelInstalled); err != nil || got != study.LevelInstalled {
			t.Errorf("%s: installed becomes %q, %v", f.Name, got, err)
		}
		if f.Usual != "" {
			if got, err := f.Canonical(f.Usual); err != nil || got != f.Usual || !f.Sets(f.Usual) {
				t.Errorf("%s: usual %q becomes %q, %v", f.Name, f.Usual, got, err)
			}
		}
		if want := study.LevelInstalled; cell[f.Name] != want && f.Name != FactorSidecarHosts && !(f.Implied && cell[f.Name] == "") {
			t.Errorf("%s is %q in a study that does not name it", f.Name, cell[f.Name])
		}
		subject, many := f.Subject(study.LevelInstalled)
		for _, words := range []string{f.Label(study.LevelInstalled), f.Phrase(study.LevelInstalled), subject} {
			if !strings.HasSuffix(words, " as installed") || many {
				t.Errorf("%s as installed is called %q", f.Name, words)
			}
		}
		if f.Label(f.Usual) == f.Label(study.LevelInstalled) {
			t.Errorf("%s: its usual level is called %q too", f.Name, f.Label(f.Usual))
		}
	}
	if l, err := LevelsOf(cell); err != nil || l.DebounceAfter.String() != "100ms" || l.DebounceMax.String() != "10s" || l.IstiodReplicas != 1 || l.ExportTo != "*" || l.SidecarScope != SidecarScopeNone || !l.EDSDebounce {
		t.Errorf("arithmetic takes %+v, %v", l, err)
	}
}

// Levels equal to istiod's built-in values are not another spelling of installed.
func TestBuiltInLevels(t *testing.T) {
	for _, c := range []struct{ factor, level string }{
		{FactorPushThrottle, "default"}, {FactorRequestLimit, "default"}, {FactorIstiodCPU, "none"}, {FactorSidecarScope, "none"}, {FactorDiscoverySelectors, "none"},
	} {
		f, _ := study.FactorByName(c.factor)
		if got, err := f.Canonical(c.level); err != nil || got != c.level {
			t.Errorf("%s %s becomes %q, %v", c.factor, c.level, got, err)
		}
	}
	for _, c := range []struct{ factor, level string }{{FactorIstiodCPURequest, "none"}, {FactorIstiodMemory, "default"}, {study.FactorDebounceAfter, "default"}, {FactorSidecarScope, "instaled"}} {
		f, _ := study.FactorByName(c.factor)
		if got, err := f.Canonical(c.level); err == nil {
			t.Errorf("%s %s becomes %q", c.factor, c.level, got)
		}
	}
}

// Our Sidecar has hosts even if none are named. Without one, hosts mean nothing.
func TestHostsOfSidecars(t *testing.T) {
	for _, c := range []struct{ settings, want string }{
		{"{proxies: 50}", study.NotApplicable}, {"{sidecar_scope: none}", study.NotApplicable}, {"{sidecar_hosts: a/*}", study.NotApplicable},
		{"{sidecar_scope: mesh}", usualHosts}, {"{sidecar_scope: workload, sidecar_hosts: a/*}", "a/*"},
	} {
		if got := controlPlan(t, "control: {}\nsettings: "+c.settings+"\n").Cells[0][FactorSidecarHosts]; got != c.want {
			t.Errorf("%s: hosts %q, want %q", c.settings, got, c.want)
		}
	}
}

// Installed values stand in for levers that a cell does not name, in the factors' spelling, and never
// for those that it names. Other values are no levels.
func TestKnown(t *testing.T) {
	cell := record.Cell{"proxies": "5", "debounce_after": study.LevelInstalled, "debounce_max": "20s", "sidecar_hosts": study.NotApplicable, "export_to": study.LevelInstalled}
	known, strange := Known(cell, record.Cell{"debounce_after": "1500ms", "debounce_max": "30s", "sidecar_hosts": "a/*", "export_to": "a,b"})
	want := cell.With(record.Cell{"debounce_after": "1.5s", "sidecar_hosts": "a/*"})
	if !maps.Equal(known, want) || !slices.Equal(strange, []string{"export_to"}) {
		t.Errorf("%v, strange %q, want %v", known, strange, want)
	}
}
