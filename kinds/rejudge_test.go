package kinds

import (
	"encoding/json"
	"errors"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/note"
	dataverdict "github.com/meshtrial/meshtrial/kinds/dataplane/verdict"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/mesh/none"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/run/verdict"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

// Every kind of study is in the table once, with limits of unique names.
func TestTable(t *testing.T) {
	for _, name := range study.Kinds() {
		k, ok := Named(name)
		if !ok || k.Trial == nil || k.Judge == nil || len(k.Limits) == 0 {
			t.Errorf("kind %s is not in the table", name)
		}
		seen := map[string]bool{}
		for _, l := range k.Limits {
			if seen[l.Name] || l.Name == "" || l.Doc == "" {
				t.Errorf("kind %s: limit %+v", name, l)
			}
			// Listed limits can be set.
			if got, err := verdict.ParseLimits([]string{l.Name + "=" + l.Text(l.Default)}, k.Limits); err != nil || got[l.Name] != l.Default {
				t.Errorf("kind %s: limit %s is shown as %s, which is %v, %v", name, l.Name, l.Text(l.Default), got, err)
			}
			seen[l.Name] = true
		}
	}
}

func noMesh(string) func(mesh.Evidence) []record.Check { return none.Mesh{}.Verify }

// aRun has trials that are faultless, whose generator was late, that were lost, that left no
// evidence, and whose histograms are damaged.
func aRun(t *testing.T) record.Run {
	t.Helper()
	plan := studytest.Plan(t, studytest.ThreeCells)
	evidence := map[string][]byte{}
	run := record.Run{
		Header:    record.Header{Schema: record.Schema, Kind: record.KindDataPlane, RunID: "r", Seed: plan.Seed},
		StudyYAML: plan.Study.Marshal(),
		Evidence: func(id string) ([]byte, error) {
			if data, ok := evidence[id]; ok {
				return data, nil
			}
			return nil, fs.ErrNotExist
		},
	}
	for order, slot := range plan.Block(0) {
		trial := record.Trial{
			Schema: record.Schema, ID: study.TrialID(0, order), Order: order, Repeat: slot.Repeat, Cell: plan.Cells[slot.Cell],
			Window: record.Window{Start: time.Unix(1_790_000_000, 0).UTC(), Seconds: 2}, Warmup: record.Warmup{Steady: true},
			Load: &record.Load{Scheduled: 200, Completed: 200, Within: record.Within{Answered: 200}, Intended: record.LatencyAt(0.5, 400), Lag: record.LatencyAt(0.5, 20),
				Schedule: &record.Schedule{Process: study.ArrivalUniform, Gaps: 199, Distance: 0.1, AchievedRatio: 1}},
		}
		seen := dataverdict.Evidence{Loops: 1, CPUs: 1, Connections: 4, Edges: []dataverdict.Edge{{Node: "n"}}, Mesh: mesh.Evidence{Cell: trial.Cell, Requests: 200, Worker: map[string]float64{"requests": 200, "through_proxy": 0}}}
		trial.Validity = dataverdict.Of(trial, seen, nil, noMesh("none"))
		data, err := json.Marshal(seen)
		must.OK(t, err)
		evidence[trial.ID] = data
		run.Trials = append(run.Trials, trial)
	}
	run.Trials[0].Validity.Valid = false // as other rules may have judged
	run.Trials[1].Validity = record.Validity{Checks: []record.Check{{Name: runner.CheckCarriedThrough, Detail: "the pod died"}}}
	delete(evidence, run.Trials[2].ID)
	run.Trials[3].Validity.Checks = append(run.Trials[3].Validity.Checks, record.Check{Name: store.CheckStored, Detail: "lost"})
	return run
}

func TestRejudge(t *testing.T) {
	run := aRun(t)
	before, _ := json.Marshal(run.Trials)
	var first []byte
	for range 2 {
		out, notes, err := Rejudge(run, nil, noMesh)
		must.OK(t, err)
		var valid []bool
		for _, trial := range out.Trials {
			valid = append(valid, trial.Validity.Valid)
		}
		if !slices.Equal(valid, []bool{true, false, true, false}) {
			t.Errorf("valid: %v", valid)
		}
		if len(notes) != 2 || !strings.Contains(notes[0], "could not be completed") || notes[1] != "1 of 4 trials, first b000-t02, keep their verdicts: their evidence is not in the run directory" {
			t.Errorf("notes %q", notes)
		}
		if out.Header.Rules.Version != verdict.Version || out.Header.Rules.Limits["schedule-lag"] != 0.25 {
			t.Errorf("rules %+v", out.Header.Rules)
		}
		data, err := json.Marshal(out.Trials)
		must.OK(t, err)
		if first == nil {
			first = data
		} else if string(data) != string(first) {
			t.Error("judged twice the run is not the same")
		}
	}
	if after, _ := json.Marshal(run.Trials); string(after) != string(before) {
		t.Error("the run given was changed")
	}
	out, _, err := Rejudge(run, verdict.Limits{"schedule-even": 0.01}, noMesh)
	if err != nil || out.Trials[0].Validity.Valid || out.Header.Rules.Limits["schedule-even"] != 0.01 {
		t.Errorf("under a narrower limit: %+v, %v", out.Trials[0].Validity, err)
	}
}

func TestRejudgeRefuses(t *testing.T) {
	run := aRun(t)
	run.Header.Kind = "sunspots"
	if _, _, err := Rejudge(run, nil, noMesh); errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), "sunspots") {
		t.Errorf("another kind: %v", err)
	}
}

// Unusable evidence of one trial only costs that trial its new verdict, and the note names the
// file.
func TestRejudgeWithoutSomeEvidence(t *testing.T) {
	for why, c := range map[string]struct {
		data []byte
		err  error
	}{"broken": {err: errors.New("broken")}, "cannot unmarshal string": {data: []byte(`{"loops": "x"}`)}, "mesh.cell": {data: []byte(`{}`)}} {
		run := aRun(t)
		all := run.Evidence
		run.Evidence = func(id string) ([]byte, error) {
			if id == "b000-t03" {
				return c.data, c.err
			}
			return all(id)
		}
		run.Header.Rules = record.Rules{Version: verdict.Version, Limits: map[string]float64{"schedule-lag": 0.5}}
		out, notes, err := Rejudge(run, nil, noMesh)
		if err != nil || !out.Trials[0].Validity.Valid || out.Header.Rules.Limits["schedule-lag"] != 0.25 {
			t.Fatalf("%s: %v: %+v", why, err, out.Header.Rules)
		}
		if text := strings.Join(notes, "\n"); !strings.Contains(text, "trial b000-t03 keeps its verdict: evidence/b000-t03.json.zst is unusable: ") || !strings.Contains(text, why) {
			t.Errorf("%s: notes %q", why, notes)
		}
		for i, trial := range out.Trials {
			kept := i == 2 || i == 3
			if said := strings.Contains(note.Codes(trial.Validity.Warnings), "kept_verdict"); said != kept {
				t.Errorf("%s: trial %s: warnings %q", why, trial.ID, trial.Validity.Warnings)
			}
			trial.Validity.Warnings = nil
			if kept && !reflect.DeepEqual(trial, run.Trials[i]) {
				t.Errorf("%s: trial %s: %+v, had %+v", why, trial.ID, trial.Validity, run.Trials[i].Validity)
			}
		}
	}
}

// A run without any trial to rejudge stays unchanged, including its rules.
func TestRejudgeNothing(t *testing.T) {
	run := aRun(t)
	run.Evidence = nil
	run.Header.Rules = record.Rules{Version: 77, Limits: map[string]float64{"moon": 1}}
	out, notes, err := Rejudge(run, nil, noMesh)
	if err != nil || len(notes) != 3 || !strings.Contains(notes[1], "3 of 4 trials") || !strings.Contains(notes[2], "no trial was judged again") ||
		!reflect.DeepEqual(out.Trials, run.Trials) || !reflect.DeepEqual(out.Header, run.Header) {
		t.Errorf("%v, %q: %+v", err, notes, out.Header.Rules)
	}
}
