package procfs

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os/exec"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/testing/must"
)

// ended starts a process, lets it end, and returns its identity. With wait the
// process is reaped; otherwise it is a zombie.
func ended(t *testing.T, me Identity, wait bool) Identity {
	t.Helper()
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	must.OK(t, err)
	must.OK(t, cmd.Start())
	process, err := ReadProcess(cmd.Process.Pid)
	must.OK(t, err)
	i := me
	i.PID, i.StartTicks = cmd.Process.Pid, process.StartTime
	if got := LifeOf(i, me); got != Alive || process.Ended() {
		t.Errorf("a process that runs is %d, ended: %t", got, process.Ended())
	}
	in.Close()
	if wait {
		must.OK(t, cmd.Wait())
		return i
	}
	t.Cleanup(func() { cmd.Wait() })
	for !process.Ended() { // limited by the test's deadline
		process, err = ReadProcess(cmd.Process.Pid)
		must.OK(t, err)
		time.Sleep(time.Millisecond)
	}
	return i
}

func TestLifeOf(t *testing.T) {
	me, err := Self()
	must.OK(t, err)
	with := func(change func(*Identity)) Identity {
		i := me
		change(&i)
		return i
	}
	for _, tt := range []struct {
		name string
		of   Identity
		want Life
	}{
		{"this process", me, Alive},
		{"gone", ended(t, me, true), Dead},
		{"a zombie", ended(t, me, false), Dead},
		{"its number is used again", with(func(i *Identity) { i.StartTicks++ }), Dead},
		{"another machine, or boot", with(func(i *Identity) { i.Boot = "b"; i.PID = 1 << 22 }), Unknown},
		{"another PID namespace", with(func(i *Identity) { i.PIDNamespace = "pid:[1]"; i.PID = 1 << 22 }), Unknown},
		{"nothing known", Identity{}, Unknown},
		{"no PID", with(func(i *Identity) { i.PID = 0 }), Unknown},
	} {
		if got := LifeOf(tt.of, me); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

// An identity written by one process can be read by another. Its JSON names are
// those already stored in namespaces of runs.
func TestIdentityIsKept(t *testing.T) {
	i := Identity{Host: "h", Boot: "b", PIDNamespace: "pid:[7]", PID: 12, StartTicks: 34}
	const text = `{"host":"h","boot_id":"b","pid_namespace":"pid:[7]","pid":12,"start_ticks":34}`
	if data, err := json.Marshal(i); err != nil || string(data) != text {
		t.Errorf("%s, %v", data, err)
	}
	var back Identity
	if err := json.Unmarshal([]byte(text), &back); err != nil || back != i || back.String() != "process 12 on h" {
		t.Errorf("%v, %v", back, err)
	}
}

func TestReadProcessOfNone(t *testing.T) {
	if _, err := ReadProcess(1 << 30); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
