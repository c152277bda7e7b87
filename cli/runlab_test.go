package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/observe/procfs"
)

// labFor leaves the state of a lab that is up for a process that has died, with
// this test as its init.
func labFor(t *testing.T) (me, dead procfs.Identity, record string) {
	t.Helper()
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	state := filepath.Join(os.Getenv("XDG_STATE_HOME"), "meshtrial", "lab")
	if err := os.MkdirAll(state, 0o700); err != nil {
		t.Fatal(err)
	}
	me, err := procfs.Self()
	if err != nil {
		t.Fatal(err)
	}
	dead = me
	dead.StartTicks++ // its number is this process's now
	text, err := json.Marshal(map[string]any{"schema": 1, "id": "0badf6", "phase": "ready", "boot_id": me.Boot, "init_pid": me.PID, "init_start_ticks": me.StartTicks,
		"network": map[string]string{"host": "10.254.77.1/30", "node": "10.254.77.2/30", "pods": "10.160.0.0/16", "services": "10.96.0.0/16"}, "for_run": dead})
	if err != nil {
		t.Fatal(err)
	}
	const config = "{apiVersion: v1, kind: Config, clusters: [{name: lab, cluster: {server: 'https://127.0.0.1:1'}}], contexts: [{name: lab, context: {cluster: lab}}], current-context: lab}"
	record = filepath.Join(state, "lab.json")
	for path, data := range map[string]string{record: string(text), filepath.Join(state, "kubeconfig"): config} {
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return me, dead, record
}

// The lab of a run that was killed is taken down with the next one, unless that
// is told to keep it; the next one says so.
func TestOpenLabOfAKilledRun(t *testing.T) {
	for _, keep := range []bool{false, true} {
		me, dead, record := labFor(t)
		var said bytes.Buffer
		open := func() lab.Lab {
			l, err := openLab(t.Context(), &Env{Stderr: io.Discard}, newProgress(&said), runFlags{lab: lab.KindLocal, keepLab: keep}, nil)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		if l := open(); l.Stays() != keep {
			t.Errorf("keep %v: it stays: %v", keep, l.Stays())
		}
		want := "the running lab belongs to a run that was killed (" + dead.String() + "); it is taken down with this one\n"
		if keep {
			want = "the running lab belongs to a run that was killed (" + dead.String() + "); it stays up (--keep-lab)\n"
		}
		if said.String() != want {
			t.Errorf("said %q, want %q", said.String(), want)
		}
		data, err := os.ReadFile(record)
		if err != nil {
			t.Fatal(err)
		}
		var noted struct {
			ForRun *procfs.Identity `json:"for_run"`
		}
		if err := json.Unmarshal(data, &noted); err != nil || (noted.ForRun == nil) != keep || noted.ForRun != nil && *noted.ForRun != me {
			t.Errorf("keep %v: noted for %+v, %v", keep, noted.ForRun, err)
		}
		// Who comes while the run is under way leaves it alone, and says nothing.
		said.Reset()
		if l := open(); !l.Stays() || said.Len() > 0 {
			t.Errorf("keep %v: the next one was told %q; it stays: %v", keep, said.String(), l.Stays())
		}
	}
}

// `lab status` says for whom a lab is up.
func TestStatusNamesTheRun(t *testing.T) {
	_, dead, _ := labFor(t)
	status, err := local.GetStatus("") // the error: nobody answers for its components
	if status == nil {
		t.Fatal(err)
	}
	print := func() string {
		var out bytes.Buffer
		if err := printStatus(&out, status); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if text := print(); !strings.Contains(text, "a run that was killed ("+dead.String()+")") || !strings.Contains(text, "meshtrial lab down") {
		t.Errorf("of a dead run:\n%s", text)
	}
	status.Orphaned = false
	if text := print(); strings.Contains(text, "killed") || !strings.Contains(text, "a run ("+dead.String()+"), which takes it down") {
		t.Errorf("of a run under way:\n%s", text)
	}
	status.ForRun = nil
	if text := print(); strings.Contains(text, "run (") {
		t.Errorf("of none:\n%s", text)
	}
}

// A run beside metrics-server says so in its header; one without says nothing.
func TestBesides(t *testing.T) {
	for _, on := range []bool{false, true} {
		_, _, record := labFor(t)
		if on {
			text, err := os.ReadFile(record)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(record, bytes.Replace(text, []byte(`"id"`), []byte(`"metrics_server": true, "id"`), 1), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		l, err := local.Open("")
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(besides(l), ""); strings.Contains(got, "metrics-server runs in the lab") != on || !on && got != "" {
			t.Errorf("with metrics-server %t: %q", on, got)
		}
	}
}
