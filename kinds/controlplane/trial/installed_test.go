package trial

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// foundPlane is a control plane installed with some settings.
type foundPlane struct {
	mesh.ControlPlane
	was record.Cell
}

func (p foundPlane) Found(_ context.Context, l mesh.Levers) (record.Cell, error) {
	out := record.Cell{}
	for factor, level := range p.was {
		if !l.Named(factor) {
			out[factor] = level
		}
	}
	return out, nil
}

// A trial uses the installed levels if the cell names no others, and records them.
func TestLearn(t *testing.T) {
	s, cell, _ := controlCell(t, "debounce_after=250ms", "control.scope_namespace=test-1")
	was := record.Cell{"debounce_after": "1s", "debounce_max": "20s", "eds_debounce": "false", "istiod_replicas": "3", "export_to": "a,b", "sidecar_scope": "mesh",
		"sidecar_hosts": "istio-system/*", "dns_capture": "true", "discovery_selectors": "none", "istiod": "hub/pilot:1"}
	trial, err := newControlTrial(&controlPlane{study: s, mesh: foundPlane{was: was}}, runner.Job{Cell: cell})
	must.OK(t, err)
	if l := trial.levels; l.IstiodReplicas != 1 || l.DebounceMax != 10*time.Second || !l.EDSDebounce || l.SidecarScope != controlplane.SidecarScopeNone {
		t.Errorf("before anything is known: %+v", l)
	}
	must.OK(t, trial.learn(t.Context()))
	l := trial.levels
	if l.DebounceAfter != 250*time.Millisecond || l.DebounceMax != 20*time.Second || l.EDSDebounce || l.IstiodReplicas != 3 || !l.DNSCapture || l.SidecarScope != controlplane.SidecarScopeMesh || l.ExportTo != "*" {
		t.Errorf("%+v", l)
	}
	delete(was, "debounce_after")
	if !reflect.DeepEqual(trial.out.Control.Installed, was) || !reflect.DeepEqual(trial.seen.Installed, was) {
		t.Errorf("recorded: %v, seen: %v", trial.out.Control.Installed, trial.seen.Installed)
	}
	if a := audienceOf(trial.levels, trial.known); a.SidecarScope != controlplane.SidecarScopeMesh || !reflect.DeepEqual(a.EgressHosts, []string{"istio-system/*"}) {
		t.Errorf("%+v", a)
	}
	if trial.levers.Named(controlplane.FactorSidecarScope) || trial.levers.Named(controlplane.FactorDNSCapture) || !trial.levers.Named(study.FactorDebounceAfter) {
		t.Errorf("what was found is asked for: %v", trial.levers.Levels)
	}
	if got := note.Words(trial.seen.Problems); !strings.Contains(got, "export_to is installed as a,b, which is not a level") || strings.Contains(got, "istiod ") {
		t.Errorf("warnings %q", got)
	}
}

// Whether istiod watches a namespace depends on the discovery selectors it was installed with.
func TestSelects(t *testing.T) {
	labels := map[string]string{"team": "a", "kubernetes.io/metadata.name": "mm-0"}
	for selectors, want := range map[string]bool{
		"team=a": true, "team=b": false, "team!=b": true, "team!=a": false, "istio-discovery=enabled": false,
		`[{"matchLabels":{"team":"b"}},{"matchExpressions":[{"key":"team","operator":"Exists"}]}]`: true,
		`[{"matchLabels":{"team":"b"}},{"matchLabels":{"team":"c"}}]`:                              false,
	} {
		if got, err := selects(selectors, labels); err != nil || got != want {
			t.Errorf("%s: %v, %v", selectors, got, err)
		}
	}
	if err := watches("team=b", "mm-0", labels); errs.Code(err) != errs.CodeUsage || !strings.Contains(errs.Hint(err), "discovery_selectors: none") {
		t.Errorf("%v", err)
	}
	if err := watches("team=a", "mm-0", labels); err != nil {
		t.Error(err)
	}
	if _, err := selects(`[{"matchExpressions":[{"key":"team","operator":"Roughly"}]}]`, labels); err == nil {
		t.Error("a selector that cannot be read")
	}
}
