package perf_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/observe/profile"
	"github.com/meshtrial/meshtrial/observe/profile/perf"
	"github.com/meshtrial/meshtrial/testing/elftest"
	"github.com/meshtrial/meshtrial/testing/leakcheck"
	"github.com/meshtrial/meshtrial/testing/must"
)

// perf is stopped before its file fills the disk.
func TestFileIsFull(t *testing.T) {
	leakcheck.Goroutines(t)
	tool := needPerf(t)
	tool.MaxBytes = 256 << 10
	o := options(spin(t, elftest.Spinner(t), time.Minute).Process.Pid)
	o.Graph, o.Hz, o.Length = perf.GraphDwarf, 999, 30*time.Second
	r, err := tool.Record(t.Context(), o)
	must.OK(t, err)
	if !r.Full || r.Ended || r.Seconds > 25 || r.Profile.Len() == 0 || len(r.Profile.Notes) == 0 {
		t.Errorf("full %v, ended %v, after %.1f s, notes %q", r.Full, r.Ended, r.Seconds, r.Profile.Notes)
	}
}

func TestDwarfIsBounded(t *testing.T) {
	for _, tt := range []struct {
		hz     int
		length time.Duration
		ok     bool
	}{{99, 10 * time.Second, true}, {99, 10 * time.Minute, true}, {99, time.Hour, false}, {10_000, time.Minute, false}} {
		o := perf.Options{PIDs: []int{1}, Hz: tt.hz, Length: tt.length, Graph: perf.GraphDwarf}
		if err := o.Check(); (err == nil) != tt.ok {
			t.Errorf("%d Hz for %v: %v", tt.hz, tt.length, err)
		}
		if _, err := (perf.Tool{}).Record(t.Context(), o); !tt.ok && errs.Code(err) != errs.CodeUsage {
			t.Errorf("%v", err)
		}
	}
}

// perf ends by itself if nothing is left to stop it.
func TestEndsByItself(t *testing.T) {
	needPerf(t)
	target := spin(t, elftest.Spinner(t), time.Minute)
	o := perf.Options{PIDs: []int{target.Process.Pid}, Hz: 99, Length: time.Second, Graph: perf.GraphNone}
	args := perf.Arguments(o, filepath.Join(t.TempDir(), "perf.data"))
	at := slices.Index(args, "sleep")
	if at < 0 || args[at+1] != "31" || args[at-1] != "--" {
		t.Fatalf("%q", args)
	}
	args[at+1] = "1" // rather than half a minute more than the profile's length
	cmd := exec.Command("perf", args...)
	control, kept, err := os.Pipe()
	must.OK(t, err)
	defer control.Close()
	ackOut, ackIn, err := os.Pipe()
	must.OK(t, err)
	defer ackOut.Close()
	defer ackIn.Close()
	cmd.ExtraFiles = []*os.File{control, ackIn}
	must.OK(t, cmd.Start())
	must.OK(t, must.Err(kept.WriteString("enable\n")))
	kept.Close() // as if its parent were killed
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		_ = cmd.Process.Kill()
		<-done
		t.Error("perf goes on")
	}
	if err := target.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the profiled process ended: %v", err)
	}
}

// Only directories left by killed programs are removed.
func TestSweep(t *testing.T) {
	tool := needPerf(t)
	tool.Temp = t.TempDir()
	old := time.Now().Add(-3 * time.Hour)
	make1 := func(name string, dir, data time.Time) string {
		path := filepath.Join(tool.Temp, name)
		must.OK(t, os.Mkdir(path, 0o700))
		file := filepath.Join(path, "perf.data")
		must.OK(t, os.WriteFile(file, []byte("x"), 0o600))
		must.OK(t, errors.Join(os.Chtimes(file, data, data), os.Chtimes(path, dir, dir)))
		return path
	}
	left := make1("meshtrial-profile-1", old, old)
	kept := []string{
		make1("meshtrial-profile-2", old, time.Now()),
		make1("meshtrial-profile-3", time.Now(), old),
		make1("another", old, old),
	}
	must.OK(t, os.Symlink(kept[2], filepath.Join(tool.Temp, "meshtrial-profile-4")))
	o := perf.Options{PIDs: []int{os.Getpid()}, Hz: 10, Length: 10 * time.Millisecond, Graph: perf.GraphNone}
	must.OK(t, must.Err(tool.Record(t.Context(), o)))
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", left, err)
	}
	for _, path := range kept {
		if _, err := os.Stat(filepath.Join(path, "perf.data")); err != nil {
			t.Error(err)
		}
	}
}

// perf does not continue printing invalid text, which may be gigabytes.
func TestRefusedText(t *testing.T) {
	leakcheck.Goroutines(t)
	tool := filepath.Join(t.TempDir(), "perf")
	must.OK(t, os.WriteFile(tool, []byte("#!/bin/sh\nwhile :; do echo 'what is no sample'; done\n"), 0o755))
	begin := time.Now()
	_, _, err := perf.Tool{Path: tool}.ReadFile(t.Context(), "x.data")
	if !errors.Is(err, profile.ErrFormat) || time.Since(begin) > time.Minute {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
}
