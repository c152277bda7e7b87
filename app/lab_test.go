package app

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/observe/procfs"
	"github.com/meshtrial/meshtrial/testing/must"
)

// labFor writes the state of a running lab for a process that has died. Its init is this test.
func labFor(t *testing.T) (me, dead procfs.Identity, record string) {
	t.Helper()
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	state := filepath.Join(os.Getenv("XDG_STATE_HOME"), "meshtrial", "lab")
	must.OK(t, os.MkdirAll(state, 0o700))
	me, err := procfs.Self()
	must.OK(t, err)
	dead = me
	dead.StartTicks++ // the PID now belongs to this process
	text, err := json.Marshal(map[string]any{"schema": 1, "id": "0badf6", "phase": "ready", "boot_id": me.Boot, "init_pid": me.PID, "init_start_ticks": me.StartTicks,
		"network": map[string]string{"host": "10.254.77.1/30", "node": "10.254.77.2/30", "pods": "10.160.0.0/16", "services": "10.96.0.0/16"}, "for_run": dead})
	must.OK(t, err)
	const config = "{apiVersion: v1, kind: Config, clusters: [{name: lab, cluster: {server: 'https://127.0.0.1:1'}}], contexts: [{name: lab, context: {cluster: lab}}], current-context: lab}"
	record = filepath.Join(state, "lab.json")
	for path, data := range map[string]string{record: string(text), filepath.Join(state, "kubeconfig"): config} {
		must.OK(t, os.WriteFile(path, []byte(data), 0o600))
	}
	return me, dead, record
}

// The next run takes down the lab of a killed run when it ends, and says so. It keeps the lab if
// its options say so.
func TestOpenLabOfAKilledRun(t *testing.T) {
	for _, keep := range []bool{false, true} {
		me, dead, record := labFor(t)
		said := &recorder{}
		open := func() lab.Lab {
			o := RunOptions{Where: Where{Lab: lab.KindLocal}, KeepLab: keep, Progress: said}
			l, err := o.openLab(t.Context(), nil)
			must.OK(t, err)
			return l
		}
		if l := open(); l.Stays() != keep {
			t.Errorf("keep %v: it stays: %v", keep, l.Stays())
		}
		want := "the running lab belongs to a run that was killed (" + dead.String() + "); it stops when this run ends\n"
		if keep {
			want = "the running lab belongs to a run that was killed (" + dead.String() + "); it keeps running (--keep-lab)\n"
		}
		if said.notes.String() != want {
			t.Errorf("said %q, want %q", said.notes.String(), want)
		}
		data, err := os.ReadFile(record)
		must.OK(t, err)
		var noted struct {
			ForRun *procfs.Identity `json:"for_run"`
		}
		if err := json.Unmarshal(data, &noted); err != nil || (noted.ForRun == nil) != keep || noted.ForRun != nil && *noted.ForRun != me {
			t.Errorf("keep %v: noted for %+v, %v", keep, noted.ForRun, err)
		}
		// A run that starts while this one is under way leaves the lab alone and says nothing.
		said.notes.Reset()
		if l := open(); !l.Stays() || said.notes.Len() > 0 {
			t.Errorf("keep %v: the next one was told %q; it stays: %v", keep, said.notes.String(), l.Stays())
		}
	}
}

// closing is a lab that can only be closed.
type closing struct {
	lab.Lab
	stays  bool
	closed int
}

func (c *closing) Stays() bool { return c.stays }

func (c *closing) Close() error {
	c.closed++
	return nil
}

// closeLab reports the end of a lab only if the lab ends.
func TestCloseLab(t *testing.T) {
	for _, stays := range []bool{true, false} {
		p := &recorder{}
		l := &closing{stays: stays}
		if err := closeLab(l, p); err != nil || l.closed != 1 {
			t.Errorf("stays %v: closed %d times, %v", stays, l.closed, err)
		}
		if len(p.said) > 0 == stays || p.going {
			t.Errorf("stays %v: said %q, and goes on: %v", stays, p.said, p.going)
		}
	}
}

// The progress line of the machine check ends with the check, so that it does not mix with later
// output.
func TestMachineRemarksEndTheirLine(t *testing.T) {
	p := &recorder{}
	o := RunOptions{Where: Where{Lab: lab.KindLocal}, Progress: p}
	must.OK(t, must.Err(o.machineRemarks(t.Context())))
	if p.going {
		t.Errorf("%q goes on", p.said)
	}
}
