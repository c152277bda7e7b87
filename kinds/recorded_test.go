package kinds_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/kinds"
	"github.com/meshtrial/meshtrial/kinds/analyses"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/mesh/istio"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/golden"
	"github.com/meshtrial/meshtrial/testing/must"
)

// A recorded run of each kind is still read, judged and analyzed as when it was made: the same
// verdicts from its evidence, and the same findings.json, which -update rewrites. To change
// verdicts, record the runs again from each study.yaml.
func TestRecordedRuns(t *testing.T) {
	for _, name := range []string{"data-plane", "control-plane", "resilience", "ingress"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join("testdata", name)
			run, left, err := store.Load(t.Context(), dir)
			if err != nil || len(run.Trials) == 0 {
				t.Fatalf("%d trials, %v, %v", len(run.Trials), left, err)
			}
			again, notes, err := kinds.Rejudge(run, nil, func(string) func(mesh.Evidence) []record.Check { return (&istio.Mesh{}).Verify })
			if err != nil || len(notes) > 0 {
				t.Fatalf("judged again: %v, %v", notes, err)
			}
			for i, trial := range run.Trials {
				if !reflect.DeepEqual(figuresOf(again.Trials[i].Validity), figuresOf(trial.Validity)) {
					t.Errorf("trial %s: %+v, judged again %+v", trial.ID, trial.Validity, again.Trials[i].Validity)
				}
			}
			recorded := findingsOf(t, run)
			golden.File(t, filepath.Join(dir, store.FileFindings), recorded)
			if got := findingsOf(t, again); !bytes.Equal(got, recorded) {
				t.Errorf("judged again the findings differ:\n%s", golden.FirstDifference(string(got), string(recorded)))
			}
		})
	}
}

var figures = regexp.MustCompile(`[0-9][0-9.]*`)

// figuresOf reduces the details of a verdict's checks to their figures, since the words may change.
func figuresOf(v record.Validity) record.Validity {
	v.Checks = slices.Clone(v.Checks)
	for i := range v.Checks {
		v.Checks[i].Detail = strings.Join(figures.FindAllString(v.Checks[i].Detail, -1), " ")
	}
	return v
}

// findingsOf returns a run's findings.json.
func findingsOf(t *testing.T, run record.Run) []byte {
	t.Helper()
	f, err := analyses.All().Analyze(run)
	must.OK(t, err)
	var data bytes.Buffer
	e := json.NewEncoder(&data)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	must.OK(t, e.Encode(f))
	return data.Bytes()
}

// Runs of studies that an earlier release accepted, and that are rejected today, are still read,
// rejudged and analyzed with their measurements.
func TestRunsOfStudiesRefusedToday(t *testing.T) {
	for name, c := range map[string]struct {
		of      string   // the recorded run
		texts   []string // in resolved.yaml, with their replacements
		levels  record.Cell
		refused string
	}{
		"slices": {"control-plane", []string{"endpoint_slices: 0, slice_namespaces: 1,", "endpoint_slices: 2, slice_namespaces: 5,"},
			record.Cell{controlplane.FactorEndpointSlices: "2", controlplane.FactorSliceNamespaces: "5"}, "2 EndpointSlices cannot fill 5 namespaces"},
		"outside": {"resilience", []string{"settings: {", "settings: {sidecars: ambient, ", "    bar:\n", "    front: {replicas: 1, sidecar: false, calls: [{to: bar}]}\n    bar:\n", "  to: bar\n", "  to: front\n"},
			record.Cell{study.FactorSidecars: study.SidecarsAmbient}, "its caller front is not in the mesh"},
		"vain": {"resilience", []string{"settings: {", "settings: {sidecars: ambient, ", " retries: default,", "", "baseline: {}\n", "factors: {retries: [default, \"off\"]}\nbaseline: {}\n"},
			record.Cell{study.FactorSidecars: study.SidecarsAmbient}, "no cell has retries default or off"},
	} {
		t.Run(name, func(t *testing.T) {
			run, _, err := store.Load(t.Context(), filepath.Join("testdata", c.of))
			must.OK(t, err)
			run.StudyYAML = []byte(strings.NewReplacer(c.texts...).Replace(string(run.StudyYAML)))
			for i := range run.Trials {
				run.Trials[i].Cell = run.Trials[i].Cell.With(c.levels)
			}
			if _, err := study.Parse(run.StudyYAML, store.FileResolved, nil); err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Fatalf("such a study can be run: %v; want %q", err, c.refused)
			}
			again, _, err := kinds.Rejudge(run, nil, func(string) func(mesh.Evidence) []record.Check { return (&istio.Mesh{}).Verify })
			must.OK(t, err)
			if f, err := analyses.All().Analyze(run); err != nil || len(f.Findings) == 0 || f.Validity.Valid != len(run.Trials) {
				t.Errorf("%d findings, %+v, %v", len(f.Findings), f.Validity, err)
			}
			// Today's rules may require more than such a trial observed.
			if f, err := analyses.All().Analyze(again); err != nil || f.Validity.Trials != len(run.Trials) {
				t.Errorf("judged again: %+v, %v", f.Validity, err)
			}
		})
	}
}

// A recorded run can be resumed: its study parses to the same one, and its trials are those of the
// plan.
func TestRecordedRunsGoOn(t *testing.T) {
	for _, name := range []string{"data-plane", "control-plane", "resilience", "ingress"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), name)
			must.OK(t, os.CopyFS(path, os.DirFS(filepath.Join("testdata", name))))
			contents, err := store.Read(path)
			must.OK(t, err)
			s, err := study.Parse(contents.Resolved, store.FileResolved, nil)
			must.OK(t, err)
			dir, contents, err := store.Resume(path, s.Marshal(), contents.Header.Seed)
			must.OK(t, err)
			defer dir.Close()
			plan, err := study.NewPlan(s, contents.Header.Seed)
			must.OK(t, err)
			if err := plan.CheckTrials(contents.Trials); err != nil || len(contents.Trials) == 0 {
				t.Errorf("%d trials: %v", len(contents.Trials), err)
			}
			other, err := study.Parse(contents.Resolved, store.FileResolved, []string{"question=Another?"})
			must.OK(t, err)
			dir.Close()
			if _, _, err := store.Resume(path, other.Marshal(), 0); err == nil {
				t.Error("another study goes on with it")
			}
		})
	}
}

// A valid trial whose part for its kind is missing is left out, and the rest is analyzed.
func TestTrialWithoutItsPart(t *testing.T) {
	for kind, field := range map[string]string{"control-plane": "control", "resilience": "scenario", "ingress": "ingress"} {
		t.Run(kind, func(t *testing.T) {
			path := t.TempDir()
			must.OK(t, os.CopyFS(path, os.DirFS(filepath.Join("testdata", kind))))
			before, _, err := store.Load(t.Context(), path)
			must.OK(t, err)
			name := filepath.Join(path, store.FileTrials)
			data, err := os.ReadFile(name)
			must.OK(t, err)
			valid := slices.IndexFunc(before.Trials, func(trial record.Trial) bool { return trial.Validity.Valid })
			lines := bytes.SplitAfter(data, []byte("\n"))
			var fields map[string]json.RawMessage
			must.OK(t, json.Unmarshal(lines[valid], &fields))
			delete(fields, field)
			without, err := json.Marshal(fields)
			must.OK(t, err)
			lines[valid] = append(without, '\n')
			must.OK(t, os.WriteFile(name, bytes.Join(lines, nil), 0o644))
			run, notes, err := store.Load(t.Context(), path)
			if left := len(before.Trials) - 1; left == 0 {
				if err == nil || !strings.Contains(err.Error(), "has no field "+field) {
					t.Errorf("%v", err)
				}
				return
			} else if err != nil || len(run.Trials) != left || !strings.Contains(strings.Join(notes, "\n"), "has no field "+field) {
				t.Fatalf("%d trials, %v, %v", len(run.Trials), notes, err)
			}
			must.OK(t, must.Err(analyses.All().Analyze(run)))
		})
	}
}
