//go:build verify

package cli_test

import (
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/kinds/analyses"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/verdict"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/studies"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// inShort lists the shipped studies of ambient meshes and of gateways, with the extreme cells of
// each, no comparisons, and the checks that their trials must have.
var inShort = []struct {
	study  string
	sets   []string
	trials int
	checks []string
}{
	{"ambient-latency", []string{"variant=[many-connections,bulk,bulk-max]", "sidecars=ambient"}, 3, nil},
	{"ztunnel-scaling", []string{"keep_alive=[true,false]", "rate=1200", "connections=[16,256]", "sidecars=ambient"}, 3, nil},
	{"sidecars-or-ambient", []string{"rate=[20,1000]", "sidecars=[ambient,waypoint]"}, 4, nil},
	{"idle-mesh", []string{"replicas=[1,10]", "sidecars=ambient", "timeline.duration=5s"}, 2, []string{"idle-client-ztunnel", "idle-client-hbone", "idle-server-ztunnel", "idle-server-hbone"}},
	{"callouts", []string{"variant=[base,together]", "sidecars=waypoint"}, 2, []string{"waypoint-filters"}},
	{"gateway-cost", []string{"connections=64", "sidecars=gateway"}, 1, []string{"gateway-requests"}},
	{"route-propagation", []string{"variant=[httproute-beside-500-virtualservices]", "control.changes=3"}, 1, []string{"connected"}},
	{"attached-routes", []string{"change_rate=100", "control.duration=2s"}, 1, []string{"connected"}},
}

// Every shipped study of ambient meshes and gateways can be measured at its extremes. No trial
// fails anything that a busy machine does not fail. Requests are accounted for if each opens a
// connection, if each is 1 MiB, and at the highest rate. For each path of an ambient mesh, at
// least one trial leaves no more of the machine's CPU time to others than a trial may.
func TestShippedAmbient(t *testing.T) {
	m, dir := ambientLab(t)
	m.Up(t, "--ztunnel", dir, "--gateway-api")
	least := map[string]float64{study.SidecarsAmbient: 1, study.SidecarsWaypoint: 1}
	for _, c := range inShort {
		t.Run(c.study, func(t *testing.T) {
			run := shortly(t, m, c.trials, c.study, c.sets)
			for _, trial := range run.Trials {
				faultless(t, trial, c.checks)
				level := trial.Cell[study.FactorSidecars]
				if !study.Ambient(trial.Cell) || trial.Scenario != nil {
					continue
				}
				accounted(t, trial)
				addedUp(t, trial)
				if o := trial.Others; o != nil {
					least[level] = min(least[level], o.UnattributedRatio)
				}
			}
		})
	}
	for level, ratio := range least {
		if ratio > verdict.Unattributed.Default {
			t.Errorf("in each trial of %s others used %.0f%% of the machine's CPU time or more", level, 100*ratio)
		}
	}
}

// shortly runs one block of a shipped study with the cells that remain after sets.
func shortly(t *testing.T, m labtest.Machine, trials int, name string, sets []string) record.Run {
	t.Helper()
	text, err := studies.Read(name)
	must.OK(t, err)
	sets = append(slices.Clone(sets), "blocks.min=1", "blocks.max=1", "baseline={}")
	parsed, err := study.Parse(text, name, sets)
	must.OK(t, err)
	args := []string{name}
	for _, set := range sets {
		args = append(args, "--set", set)
	}
	if parsed.Kind == study.ControlPlane {
		args = append(args, whenBusy...)
	}
	run := ran(t, m, trials, args...)
	if _, err := analyses.All().Analyze(run); err != nil {
		t.Error(err)
	}
	return run
}

// faultless checks that a trial fails only what a busy machine fails, and that it has the wanted
// checks.
func faultless(t *testing.T, trial record.Trial, wanted []string) {
	t.Helper()
	var names []string
	for _, c := range trial.Validity.Checks {
		names = append(names, c.Name)
		if !c.OK && !ofBusyMachine(c) {
			t.Errorf("trial %s of %v: %s: %s", trial.ID, trial.Cell, c.Name, c.Detail)
		}
	}
	for _, name := range wanted {
		if !slices.Contains(names, name) {
			t.Errorf("trial %s of %v has no check %s, but %q", trial.ID, trial.Cell, name, names)
		}
	}
}
