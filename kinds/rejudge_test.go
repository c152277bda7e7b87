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

	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/internal/studytest"
	dataverdict "github.com/meshtrial/meshtrial/kinds/dataplane/verdict"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/mesh/none"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/runner"
	"github.com/meshtrial/meshtrial/store"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/verdict"
)

// Every kind of study is in the table once, with limits of names of their own.
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
			seen[l.Name] = true
		}
	}
}

func noMesh(string) func(mesh.Evidence) []record.Check { return none.Mesh{}.Verify }

// aRun has trials that are fine, whose generator was late, that were lost,
// that left no evidence, and whose histograms are damaged.
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
			Load: &record.Load{Scheduled: 200, Completed: 200, Intended: record.Latency{P50: 400}, Lag: record.Lag{P50: 20}},
		}
		seen := dataverdict.Evidence{Loops: 1, Connections: 4, Edges: []dataverdict.Edge{{Node: "n"}}, Mesh: mesh.Evidence{Cell: trial.Cell, Requests: 200, Worker: map[string]float64{"requests": 200, "through_proxy": 0}}}
		trial.Validity = dataverdict.Of(trial, seen, nil, noMesh("none"))
		data, err := json.Marshal(seen)
		if err != nil {
			t.Fatal(err)
		}
		evidence[trial.ID] = data
		run.Trials = append(run.Trials, trial)
	}
	run.Trials[0].Validity.Valid = false // as other rules may have had it
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
		if err != nil {
			t.Fatal(err)
		}
		var valid []bool
		for _, trial := range out.Trials {
			valid = append(valid, trial.Validity.Valid)
		}
		if !slices.Equal(valid, []bool{true, false, true, false}) {
			t.Errorf("valid: %v", valid)
		}
		if len(notes) != 2 || !strings.Contains(notes[0], "could not be carried through") || !strings.Contains(notes[1], "not in the run directory") {
			t.Errorf("notes %q", notes)
		}
		if out.Header.Rules.Version != verdict.Version || out.Header.Rules.Limits["schedule-lag"] != 0.25 {
			t.Errorf("rules %+v", out.Header.Rules)
		}
		data, err := json.Marshal(out.Trials)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = data
		} else if string(data) != string(first) {
			t.Error("judged twice the run is not the same")
		}
	}
	if after, _ := json.Marshal(run.Trials); string(after) != string(before) {
		t.Error("the run given was changed")
	}
	out, _, err := Rejudge(run, verdict.Limits{"schedule-lag": 0.01}, noMesh)
	if err != nil || out.Trials[0].Validity.Valid || out.Header.Rules.Limits["schedule-lag"] != 0.01 {
		t.Errorf("under a narrower limit: %+v, %v", out.Trials[0].Validity, err)
	}
}

func TestRejudgeRefuses(t *testing.T) {
	run := aRun(t)
	run.Header.Kind = "sunspots"
	if _, _, err := Rejudge(run, nil, noMesh); errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), "sunspots") {
		t.Errorf("another kind: %v", err)
	}
	run = aRun(t)
	broken := errors.New("broken")
	run.Evidence = func(string) ([]byte, error) { return nil, broken }
	if _, _, err := Rejudge(run, nil, noMesh); !errors.Is(err, broken) {
		t.Errorf("evidence that cannot be read: %v", err)
	}
	run.Evidence = func(string) ([]byte, error) { return []byte(`{"loops": "x"}`), nil }
	if _, _, err := Rejudge(run, nil, noMesh); err == nil || !strings.Contains(err.Error(), "evidence of trial b000-t00") {
		t.Errorf("evidence that is none: %v", err)
	}
	run.Evidence = nil
	if out, notes, err := Rejudge(run, nil, noMesh); err != nil || len(notes) != 4 || !reflect.DeepEqual(out.Trials, run.Trials) {
		t.Errorf("no evidence at all: %v, %q", err, notes)
	}
}
