//go:build verify

package local_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// TestLabOfAKilledRun kills a run together with the lab that it started. The
// lab is identified as that run's, and the next run takes it down.
func TestLabOfAKilledRun(t *testing.T) {
	b := newBench(t)
	dir := t.TempDir()
	file, out := filepath.Join(dir, "killed.yaml"), filepath.Join(dir, "run")
	must.OK(t, os.WriteFile(file, []byte(`
name: killed
question: What becomes of its lab?
mesh: none
settings: {rate: 100, connections: 4, payload: 100B}
factors: {planted: [none, nothing]}
baseline: {planted: none}
warmup: {min: 200ms, max: 400ms}
window: 500ms
interval: 100ms
blocks: {min: 2, max: 2, limit: 20m}
`), 0o600))
	cmd := b.Command(t, "run", file, "--out", out)
	text, ended := labtest.Background(t, cmd)
	for {
		data, _ := os.ReadFile(filepath.Join(out, "trials.jsonl"))
		if bytes.Contains(data, []byte("\n")) {
			break
		}
		select {
		case <-ended:
			t.Fatalf("ended before its time\n%s", text)
		case <-time.After(20 * time.Millisecond):
		}
	}
	must.OK(t, cmd.Process.Kill())
	<-ended
	status, err := local.GetStatus("")
	if err != nil || status.State != local.StateRunning || !status.Orphaned {
		t.Fatalf("after the kill: %+v, %v", status, err)
	}
	if code, said := b.Run(t, "lab", "status"); code != 0 || !strings.Contains(said, "a run that was killed (process ") {
		t.Errorf("lab status: exit code %d\n%s", code, said)
	}
	// Whether its trials are valid depends on the machine's other load.
	if code, said := b.Run(t, "run", "--resume", out); code != 0 && code != 4 || !strings.Contains(said, "it stops when this run ends") {
		t.Errorf("the next run: exit code %d\n%s", code, said)
	}
	if after, err := local.GetStatus(""); err != nil || after.State != local.StateNone {
		t.Errorf("after the next run: %+v, %v", after, err)
	}
	b.down(t, status.ID) // and nothing else is left
}
