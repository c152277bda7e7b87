// Package runtest makes run directories for tests from the recorded runs of kinds/testdata:
// complete, or as they were after some of their trials.
package runtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/testing/module"
	"github.com/meshtrial/meshtrial/testing/must"
)

// Recorded returns the path of a recorded run: "data-plane", "control-plane" or
// "resilience".
func Recorded(name string) string {
	root, err := module.Root()
	if err != nil {
		panic(err) // tests run in their package's folder
	}
	return filepath.Join(root, "kinds", "testdata", name)
}

// Copy copies a recorded run to a path as run id, with only its first trials and without
// findings. It returns the number of trials of the recorded run.
func Copy(t testing.TB, name, path, id string, trials int) (all int) {
	t.Helper()
	must.OK(t, os.CopyFS(path, os.DirFS(Recorded(name))))
	must.OK(t, os.Remove(filepath.Join(path, store.FileFindings)))
	data, err := os.ReadFile(filepath.Join(path, store.FileHeader))
	must.OK(t, err)
	var header record.Header
	must.OK(t, json.Unmarshal(data, &header))
	header.RunID = id
	data, err = json.Marshal(header)
	must.OK(t, err)
	must.OK(t, os.WriteFile(filepath.Join(path, store.FileHeader), data, 0o644))
	return Grow(t, name, path, trials)
}

// Grow extends a copy to the first trials of its run, with their events.
func Grow(t testing.TB, name, path string, trials int) (all int) {
	t.Helper()
	lines := linesOf(t, name, store.FileTrials)
	events := linesOf(t, name, store.FileEvents)
	n := 0
	for _, line := range lines[:min(trials, len(lines))] {
		var trial record.Trial
		must.OK(t, json.Unmarshal(line, &trial))
		n += trial.EventLines
	}
	if len(events) > 0 {
		must.OK(t, os.WriteFile(filepath.Join(path, store.FileEvents), bytes.Join(events[:n], nil), 0o644))
	}
	must.OK(t, os.WriteFile(filepath.Join(path, store.FileTrials), bytes.Join(lines[:min(trials, len(lines))], nil), 0o644))
	return len(lines)
}

// All is more trials than any recorded run has.
const All = 1000

func linesOf(t testing.TB, name, file string) [][]byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(Recorded(name), file))
	if os.IsNotExist(err) && file == store.FileEvents {
		return nil
	}
	must.OK(t, err)
	lines := bytes.SplitAfter(data, []byte("\n"))
	if last := lines[len(lines)-1]; len(last) > 0 {
		must.OK(t, fmt.Errorf("%s of %s does not end with a line", file, name))
	}
	return lines[:len(lines)-1]
}
