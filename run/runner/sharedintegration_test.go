//go:build integration

package runner_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/kinds"
	"github.com/meshtrial/meshtrial/kinds/analyses"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/run/verdict"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// testShared measures requests that pass a node proxy and a waypoint that others
// share, from the study file to the report.
func (b *bench) testShared(t *testing.T) {
	text := `
name: shared
question: What do shared proxies cost?
mesh: shared
settings: {rate: 200, connections: 4}
factors: {sidecars: [none, shared-waypoint]}
measures: [latency, cpu, memory, threads, network]
money: {rps: 1000000, core_month: 40, currency: USD}
blocks: {min: 3, max: 3, limit: 20m, redeploy: 0}
` + strings.TrimPrefix(short, "\n")
	s, err := study.Parse([]byte(text), "shared.yaml", nil)
	must.OK(t, err)
	kind := kinds.Of(s)
	// One run at a time, like those of the program, alongside tests that use the
	// machine.
	changes := labtest.Journal(t, b.lab, "shared")
	var adapter *sharedMesh // of the latest run
	_, out := b.unspoilt(t, "shared", func(out string) string {
		adapter = &sharedMesh{images: b.lab.Images()}
		options := runner.Options{Study: s, Source: []byte(text), Kind: kind.Trial, Lab: b.lab, Mesh: adapter, Out: out,
			Journal: changes, Rules: verdict.Limits{"unattributed": 1}.Rules(kind.Limits)}
		must.OK(t, must.Err(runner.Run(t.Context(), options)))
		return ""
	})
	run, _, err := store.Load(t.Context(), out)
	must.OK(t, err)
	way := record.Way{record.PartNode, record.PartWaypoint} // the lab has one node
	carried := 0
	for _, trial := range run.Trials {
		checkModes(t, trial)
		if trial.Cell[study.FactorSidecars] != carriedByShared {
			if len(trial.Way) > 0 {
				t.Errorf("trial %s went %v", trial.ID, trial.Way)
			}
			continue
		}
		carried++
		if !slices.Equal(trial.Way, way) {
			t.Errorf("trial %s went %v", trial.ID, trial.Way)
		}
		for _, part := range way {
			if trial.CPU[part].TotalS() <= 0 || trial.Memory[part].PSSBytes < 1<<20 || len(trial.Threads[part].Threads) == 0 || trial.Probed[part]["network_bytes"] == 0 || trial.Counters[part]["cluster.next.upstream_rq_total"] == 0 {
				t.Errorf("trial %s: %s used %+v, %+v, has %d threads, counted %v", trial.ID, part, trial.CPU[part], trial.Memory[part], len(trial.Threads[part].Threads), trial.Counters[part])
			}
		}
	}
	if carried != 3 {
		t.Fatalf("%d trials through the waypoint", carried)
	}
	sharedJudgedAgain(t, run, adapter)
	sharedReported(t, run)
}

// checkModes fails for failed checks that the mesh is responsible for.
func checkModes(t *testing.T, trial record.Trial) {
	t.Helper()
	for _, c := range trial.Validity.Checks {
		if !c.OK && !labtest.OfTheMachine(trial, c) {
			t.Errorf("trial %s: %s: %s", trial.ID, c.Name, c.Detail)
		}
	}
}

// sharedJudgedAgain judges the run again from its evidence, once unchanged and
// once with a mesh that did not see the waypoint.
func sharedJudgedAgain(t *testing.T, run record.Run, adapter mesh.Mesh) {
	t.Helper()
	again, notes, err := kinds.Rejudge(run, verdict.Limits{"unattributed": 1}, func(string) func(mesh.Evidence) []record.Check { return adapter.Verify })
	if err != nil || len(notes) > 0 {
		t.Fatalf("%v, %v", notes, err)
	}
	blind, _, err := kinds.Rejudge(run, verdict.Limits{"unattributed": 1}, func(string) func(mesh.Evidence) []record.Check {
		return func(e mesh.Evidence) []record.Check {
			delete(e.Proxies, record.PartWaypoint)
			return adapter.Verify(e)
		}
	})
	must.OK(t, err)
	for i, trial := range run.Trials {
		if got := again.Trials[i].Validity.Valid; got != trial.Validity.Valid {
			t.Errorf("trial %s: valid %v, judged again %v", trial.ID, trial.Validity.Valid, got)
		}
		misses := slices.ContainsFunc(blind.Trials[i].Validity.Checks, func(c record.Check) bool { return c.Name == "waypoint-present" && !c.OK })
		if misses != (len(trial.Way) > 0) {
			t.Errorf("trial %s, which went %v: the waypoint is missed: %v", trial.ID, trial.Way, misses)
		}
	}
}

// sharedReported verifies that findings and report contain the shared proxies.
func sharedReported(t *testing.T, run record.Run) {
	t.Helper()
	f, err := analyses.All().Analyze(run)
	must.OK(t, err)
	have := map[string]bool{}
	for _, x := range f.Findings {
		have[x.Name] = true
	}
	for _, part := range []string{record.PartNode, record.PartWaypoint} {
		for _, name := range []string{"cpu_" + part + "_per_request", "memory_" + part, dataplane.FindingInvoluntary + "_" + part} {
			if !have[name] {
				t.Errorf("no finding %s", name)
			}
		}
	}
	if !have[study.FindingMoneyCPU] && !have[study.FindingMoneyMonth] {
		t.Error("no price")
	}
	var page bytes.Buffer
	must.OK(t, kinds.Reports().Render(&page, f, "text", report.Options{Width: 200}))
	for _, words := range []string{"node proxy", "waypoint", "node's proxy with a waypoint"} {
		if !strings.Contains(page.String(), words) {
			t.Errorf("the report says nothing of %q:\n%s", words, &page)
		}
	}
}
