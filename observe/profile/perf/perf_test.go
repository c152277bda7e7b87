package perf_test

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/observe/profile"
	"github.com/meshtrial/meshtrial/observe/profile/perf"
	"github.com/meshtrial/meshtrial/testing/elftest"
	"github.com/meshtrial/meshtrial/testing/leakcheck"
	"github.com/meshtrial/meshtrial/testing/must"
)

// spin starts the spinning program at path.
func spin(t *testing.T, path string, length time.Duration) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(path, length.String())
	out, err := cmd.StdoutPipe()
	must.OK(t, err)
	must.OK(t, cmd.Start())
	_, err = out.Read(make([]byte, 16))
	ended := make(chan struct{})
	go func() { // nothing else waits for it, and the pipe has been read
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	must.OK(t, err)
	return cmd
}

// needPerf skips the test if perf is not installed or may not be used.
func needPerf(t *testing.T) perf.Tool {
	t.Helper()
	var tool perf.Tool
	_, err := tool.Record(t.Context(),
		perf.Options{PIDs: []int{os.Getpid()}, Hz: 10, Length: 10 * time.Millisecond, Graph: perf.GraphFP})
	if errors.Is(err, perf.ErrMissing) || errors.Is(err, perf.ErrForbidden) {
		t.Skip(err)
	}
	must.OK(t, err)
	return tool
}

func options(pid int) perf.Options {
	return perf.Options{PIDs: []int{pid}, Hz: 199, Length: time.Second, Graph: perf.GraphFP}
}

// record profiles the spinning program, and retries if the machine gave it
// hardly any CPU.
func record(t *testing.T, tool perf.Tool, o perf.Options) perf.Recording {
	t.Helper()
	const least, attempts = 100 * time.Millisecond, 10
	for attempt := 1; ; attempt++ {
		r, err := tool.Record(t.Context(), o)
		must.OK(t, err)
		ran := time.Duration(r.Profile.Total())
		if ran >= least || attempt == attempts {
			return r
		}
		t.Logf("once more: in %.2f s it ran for %v", r.Seconds, ran)
	}
}

// A profile names the function that runs all the time, from the binary's symbol
// table or Go's own table, even if perf is in another mount namespace.
func TestRecord(t *testing.T) {
	leakcheck.Goroutines(t)
	tool := needPerf(t)
	for _, tt := range []struct{ name, ldflags, root, want string }{
		{"symbol table", "", "/", profile.TypeFull},
		{"stripped", "-s -w -B gobuildid", "/", profile.TypeGo},
		{"mount namespace", "", "/proc/self/root", profile.TypeFull},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.root != "/" && os.Geteuid() != 0 {
				t.Skip("entering a mount namespace needs root")
			}
			tool.Root = tt.root
			// There may be ten recordings, and perf may start slowly.
			o := options(spin(t, elftest.Spinner(t, "-ldflags", tt.ldflags), 10*time.Minute).Process.Pid)
			began := false
			o.Started = func() { began = true }
			r := record(t, tool, o)
			trust := r.Profile.Distrust(r.Files)
			if !began || r.Ended || !trust.Enough || r.Profile.Unit != profile.UnitNanoseconds || r.Seconds < 0.9 {
				t.Errorf("began %v, ended %v, %+v, %s, %.2f s", began, r.Ended, trust, r.Profile.Unit, r.Seconds)
			}
			if b := r.Profile.Binaries[0]; b.Type != tt.want || b.BuildID == "" && r.Files[b.Path].BuildID != "" {
				t.Errorf("%+v", b)
			}
			share := 0.0
			for _, c := range r.Profile.TopCumulative(50) {
				if strings.HasSuffix(c.Function, "spinForTheProfile") {
					share = float64(c.Cumulative) / float64(r.Profile.Total())
				}
			}
			if share < 0.5 {
				t.Errorf("it spent %.0f%% in the function that it spends all in", 100*share)
			}
		})
	}
}

// A profile contains no samples or binaries of other processes.
func TestOnlyTheProcess(t *testing.T) {
	tool := needPerf(t)
	one, other := spin(t, elftest.Spinner(t), time.Minute), spin(t, elftest.Spinner(t), time.Minute)
	for _, graph := range []string{perf.GraphFP, perf.GraphNone, perf.GraphDwarf} {
		o := options(one.Process.Pid)
		o.Graph = graph
		r := record(t, tool, o)
		if r.Profile.Len() == 0 {
			t.Fatalf("%s: nothing was seen", graph)
		}
		for _, thread := range r.Profile.Threads() {
			if thread.PID != one.Process.Pid {
				t.Errorf("%s: %+v is in the profile of %d", graph, thread, one.Process.Pid)
			}
		}
		for _, b := range r.Profile.Binaries {
			if b.Path == other.Path {
				t.Errorf("%s: %+v", graph, b)
			}
		}
	}
}

// If the program ends, the profile contains what was recorded, and a note. If
// it ends before perf saw it run, the test retries with a longer life.
func TestTargetEnds(t *testing.T) {
	leakcheck.Goroutines(t)
	tool := needPerf(t)
	path := elftest.Spinner(t)
	for _, life := range []time.Duration{4 * time.Second, 15 * time.Second, time.Minute} {
		cmd := spin(t, path, life)
		o := options(cmd.Process.Pid)
		o.Length = 2 * time.Minute
		begin := time.Now()
		r, err := tool.Record(t.Context(), o)
		tooEarly := errors.Is(err, perf.ErrGone) || err == nil && r.Ended && r.Profile.Len() == 0
		if tooEarly && life < time.Minute {
			t.Logf("once more: within %v perf saw nothing of it: %v", life, err)
			continue
		}
		if err != nil || !r.Ended || r.Profile.Len() == 0 || time.Since(begin) > 100*time.Second {
			t.Fatalf("%v, ended %v, after %v", err, r.Ended, time.Since(begin))
		}
		if len(r.Profile.Notes) == 0 {
			t.Errorf("notes %q", r.Profile.Notes)
		}
		return
	}
}

// A binary that was replaced while it ran yields no names.
func TestReplacedBinary(t *testing.T) {
	tool := needPerf(t)
	path := elftest.Spinner(t)
	cmd := spin(t, path, time.Minute)
	must.OK(t, os.Remove(path))
	must.OK(t, os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755))
	r := record(t, tool, options(cmd.Process.Pid))
	trust := r.Profile.Distrust(r.Files)
	b := r.Profile.Binaries[0]
	if trust.Enough || b.Doubt != profile.DoubtDeleted {
		t.Errorf("%+v, %+v", trust, b)
	}
}

func TestErrors(t *testing.T) {
	o := perf.Options{PIDs: []int{os.Getpid()}, Hz: 99, Length: time.Second, Graph: perf.GraphFP}
	_, err := perf.Tool{Path: "/nonexistent/perf"}.Record(t.Context(), o)
	if !errors.Is(err, perf.ErrMissing) || errs.Hint(err) == "" {
		t.Errorf("no perf: %v", err)
	}
	// A perf that refuses like the real one.
	refusing := filepath.Join(t.TempDir(), "perf")
	text := "#!/bin/sh\necho 'Error:\nAccess to performance monitoring and observability operations is limited.\n" +
		"Consider adjusting /proc/sys/kernel/perf_event_paranoid setting' >&2\nexit 255\n"
	must.OK(t, os.WriteFile(refusing, []byte(text), 0o755))
	_, err = perf.Tool{Path: refusing}.Record(t.Context(), o)
	if !errors.Is(err, perf.ErrForbidden) || errs.Hint(err) == "" {
		t.Errorf("forbidden: %v, hint %q", err, errs.Hint(err))
	}
	for _, bad := range []perf.Options{
		{},
		{PIDs: []int{1}, Hz: 0, Length: time.Second, Graph: "fp"},
		{PIDs: []int{1}, Hz: 99, Graph: "fp"},
		{PIDs: []int{-1}, Hz: 99, Length: time.Second, Graph: "fp"},
		{PIDs: []int{1}, Hz: 99, Length: time.Second, Graph: "x"},
	} {
		if _, err := (perf.Tool{}).Record(t.Context(), bad); errs.Code(err) != errs.CodeUsage {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	tool := needPerf(t)
	ended := exec.Command("/bin/true")
	if err := ended.Run(); err != nil {
		t.Skip(err)
	}
	if _, err := tool.Record(t.Context(), options(ended.Process.Pid)); !errors.Is(err, perf.ErrGone) {
		t.Errorf("a process that is gone: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	long := options(os.Getpid())
	long.Length = time.Minute
	begin := time.Now()
	if _, err := tool.Record(ctx, long); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > 50*time.Second {
		t.Errorf("given up: %v after %v", err, time.Since(begin))
	}
}

// Files that are truncated or not perf.data cause an error or a note.
func TestReadFile(t *testing.T) {
	tool := needPerf(t)
	whole, err := os.ReadFile("testdata/small.perf.data")
	must.OK(t, err)
	write := func(data []byte) string {
		path := filepath.Join(t.TempDir(), "-x perf.data")
		must.OK(t, os.WriteFile(path, data, 0o644))
		return path
	}
	p, _, err := tool.ReadFile(t.Context(), write(whole))
	if err != nil || p.Len() == 0 || p.Binary("/usr/bin/dash").BuildID == "" {
		t.Fatalf("%+v, %v", p, err)
	}
	for name, data := range map[string][]byte{
		"foreign": []byte("PERFILE2 and then something else"), "cut in its header": whole[:60], "empty": nil,
	} {
		if p, _, err := tool.ReadFile(t.Context(), write(data)); !errors.Is(err, profile.ErrFormat) {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
	// The header has the location of the samples: offset and size at 40 and 48.
	begin, size := binary.LittleEndian.Uint64(whole[40:]), binary.LittleEndian.Uint64(whole[48:])
	p, _, err = tool.ReadFile(t.Context(), write(whole[:begin+size-size/8]))
	if err == nil && len(p.Notes) == 0 || err != nil && !errors.Is(err, profile.ErrFormat) {
		t.Errorf("cut among its samples: %v, %v", p, err)
	}
}
