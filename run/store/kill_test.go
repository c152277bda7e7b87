package store

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
)

const childEnv = "MESHTRIAL_STORE_CHILD"

// TestMain turns this test binary into an endless writer for TestKill.
func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		if err := writeForEver(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func writeForEver(path string) error {
	d, c, err := Resume(path, nil, 0)
	if err != nil {
		return err
	}
	for i := len(c.Trials); ; i++ {
		tr := trial(i)
		if tr.Hist, err = d.WriteHist(tr.ID, []byte("# no interval\n")); err != nil {
			return err
		}
		if err := d.Append(tr, changes(i, 3)...); err != nil {
			return err
		}
		fmt.Println(tr.ID)
	}
}

// A writer is repeatedly killed with SIGKILL: every trial that it reported as
// stored exists, and the next writer continues.
func TestKill(t *testing.T) {
	d := create(t)
	d.Close()
	self, err := os.Executable()
	must.OK(t, err)
	said := 0
	for round := range 6 {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), childEnv+"="+d.Path())
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		must.OK(t, err)
		must.OK(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for range 3 + round {
			if !lines.Scan() {
				t.Fatal("the writer ended by itself")
			}
			said++
		}
		must.OK(t, cmd.Process.Kill())
		for lines.Scan() { // reported before it died
			said++
		}
		cmd.Wait()
		run, _, err := Load(t.Context(), d.Path())
		must.OK(t, err)
		if n := len(run.Trials); n < said || n > said+1 {
			t.Fatalf("%d trials are there, %d were said to be", n, said)
		}
		if len(run.Events) != 3*len(run.Trials) {
			t.Fatalf("%d events of %d trials", len(run.Events), len(run.Trials))
		}
		for i, tr := range run.Trials {
			if tr.ID != trial(i).ID || tr.Hist == "" {
				t.Fatalf("trial %d is %s", i, tr.ID)
			}
		}
		said = len(run.Trials)
	}
	again, _, err := Resume(d.Path(), nil, 0)
	must.OK(t, err)
	defer again.Close()
	left, err := filepath.Glob(filepath.Join(d.Path(), "*", tempPrefix+"*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left over: %v %v", left, err)
	}
}
