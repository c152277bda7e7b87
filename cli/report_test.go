package cli

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/run/verdict"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

const simulatedStudy = `
name: simulated
title: Simulated
question: What do sidecars cost?
mesh: istio
settings: {rate: 1000, connections: 16}
factors:
  sidecars: [none, both]
baseline: {sidecars: none}
blocks: {min: 4, max: 8, limit: 10m}
stop: {finding: latency_p50_overhead, half_width: 7.5%, of: {sidecars: both}}
measures: [latency, cpu, memory]
`

// writeSimulated writes a run directory of simulated trials: 100 µs without sidecars, and
// overhead µs more with both sidecars.
func writeSimulated(t *testing.T, dir string, blocks int, overhead, scatter float64, valid bool) {
	t.Helper()
	writeSimulatedAs(t, dir, simulatedStudy, blocks, overhead, scatter, valid, func(*record.Header) {})
}

// writeSimulatedAs is writeSimulated for another study, with a header modified by change.
func writeSimulatedAs(t *testing.T, dir, text string, blocks int, overhead, scatter float64, valid bool, change func(*record.Header)) {
	t.Helper()
	plan := analysistest.PlanOf(t, text, 5)
	header := analysistest.MadeUp(plan, filepath.Base(dir), 0, nil).Header
	header.Rules = verdict.Limits(nil).Rules(kinds.Of(plan.Study).Limits)
	header.Machine = record.Machine{CPUModel: "simulated", CPUs: 2, Kernel: "6.1"}
	change(&header)
	d, err := store.Create(dir, header, []byte(text), plan.Study.Marshal())
	must.OK(t, err)
	defer d.Close()
	r := rand.New(rand.NewPCG(uint64(blocks), uint64(1000*overhead)))
	analysistest.MadeUp(plan, header.RunID, blocks, func(_ *record.Run, trial *record.Trial) {
		simulate(r, trial, overhead, scatter)
		if !valid {
			trial.Validity = record.Validity{Checks: []record.Check{{Name: "mode_active", Detail: "the proxy counted no request"}}}
		}
		trial.Hist, err = d.WriteHist(trial.ID, simulatedHist(t, r, trial.Load.Intended.At(0.5)))
		must.OK(t, err)
		must.OK(t, d.Append(*trial))
	})
}

func simulate(r *rand.Rand, trial *record.Trial, overhead, scatter float64) {
	at := analysistest.Began.Add(time.Duration(trial.Block)*time.Minute + 3*time.Duration(trial.Order)*time.Second)
	trial.Started, trial.Ended, trial.Window = at, at.Add(3*time.Second), record.Window{Start: at, Seconds: 1, Intervals: 4}
	level, cpu := 100.0, 1e-4
	if trial.Cell[study.FactorSidecars] == "both" {
		level, cpu = level+overhead, 3e-4
	}
	level *= math.Exp(scatter * r.NormFloat64())
	trial.Load = &record.Load{Rate: 1000, Scheduled: 1000, Completed: 1000, Within: record.Within{Answered: 1000}, AchievedRPS: 1000,
		Lag: record.LatencyAt(0.9, 20, 0.99, 20, 0.999, 20)}
	trial.Memory[record.PartWorker] = record.Memory{PSSBytes: 14_000_000}
	trial.Load.Intended.Set(0.5, level)
	total := cpu * 1000 * math.Exp(0.01*r.NormFloat64())
	trial.CPU[record.PartMachine] = record.CPU{UserS: 0.6 * total, SystemS: 0.4 * total}
	trial.CPU[record.PartWorker] = record.CPU{UserS: 0.01, SystemS: 0.015}
}

func simulatedHist(t *testing.T, r *rand.Rand, level float64) []byte {
	t.Helper()
	var b bytes.Buffer
	w := hdrhistogram.NewHistogramLogWriter(&b)
	must.OK(t, w.OutputLogFormatVersion())
	for _, tag := range []string{store.TagIntended, store.TagSend} {
		h := hdrhistogram.New(1, 60_000_000_000, 3)
		for range 1000 {
			must.OK(t, h.RecordValue(int64(1000*level*math.Exp(0.3*r.NormFloat64()))))
		}
		h.SetTag(tag)
		h.SetStartTimeMs(0)
		h.SetEndTimeMs(1000)
		must.OK(t, w.OutputIntervalHistogram(h))
	}
	return b.Bytes()
}

// Scripts find run directories of simulated trials: a (400 µs of overhead), again (the same),
// slower (480 µs), noisy (like a, but few and scattered), invalid (no trial is valid) and empty
// (no trials).
func TestReportAndCompare(t *testing.T) {
	runs := t.TempDir()
	writeSimulated(t, filepath.Join(runs, "a"), 8, 400, 0.01, true)
	writeSimulated(t, filepath.Join(runs, "again"), 9, 400, 0.01, true)
	writeSimulated(t, filepath.Join(runs, "slower"), 8, 480, 0.01, true)
	writeSimulated(t, filepath.Join(runs, "noisy"), 4, 400, 0.15, true)
	writeSimulated(t, filepath.Join(runs, "invalid"), 4, 400, 0.01, false)
	writeSimulated(t, filepath.Join(runs, "empty"), 0, 400, 0.01, true)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/report",
		Setup: func(env *testscript.Env) error {
			env.Setenv("RUNS", runs)
			return os.CopyFS(filepath.Join(env.WorkDir, "runs"), os.DirFS(runs))
		},
		Cmds: scriptCommands{"exits": exits},
	})
}

func TestParseMargin(t *testing.T) {
	for text, want := range map[string]float64{"5%": 0.05, " 2.5 % ": 0.025, "0.1": 0.1, "0": 0, "120%": 1.2} {
		if got, err := parseMargin(text); err != nil || math.Abs(got-want) > 1e-12 {
			t.Errorf("parseMargin(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "-1%", "5", "NaN", "1e9%", "5%%"} {
		if got, err := parseMargin(text); errs.Code(err) != errs.CodeUsage {
			t.Errorf("parseMargin(%q) = %v, %v; want a usage error", text, got, err)
		}
	}
}

// --out must never replace a device with a file, which root could do.
func TestWriteWholeLeavesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	pipe, link, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "link"), filepath.Join(dir, "file")
	must.OK(t, syscall.Mkfifo(pipe, 0o600))
	read := make(chan string, 1)
	go func() {
		data, _ := os.ReadFile(pipe)
		read <- string(data)
	}()
	must.OK(t, writeWhole(pipe, []byte("report")))
	if info, err := os.Lstat(pipe); err != nil || info.Mode().Type() != os.ModeNamedPipe {
		t.Fatalf("the pipe was replaced: %v", err)
	}
	if got := <-read; got != "report" {
		t.Errorf("read %q from the pipe", got)
	}
	must.OK(t, os.WriteFile(file, []byte("old"), 0o600))
	must.OK(t, os.Symlink(file, link))
	must.OK(t, writeWhole(link, []byte("new")))
	if info, err := os.Lstat(link); err != nil || info.Mode().Type() != os.ModeSymlink {
		t.Errorf("the link was replaced: %v", err)
	}
	data, err := os.ReadFile(file)
	info, statErr := os.Stat(file)
	if err != nil || statErr != nil || string(data) != "new" || info.Mode().Perm() != 0o600 {
		t.Errorf("%q, %v, %v, %v", data, info.Mode(), err, statErr)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 3 {
		t.Errorf("left over: %v", entries)
	}
}

// If the target of a link does not exist, the file is created there, as the shell does. A link
// that leads nowhere is an error. Neither link is replaced.
func TestWriteThroughDanglingLinks(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	must.OK(t, os.MkdirAll(in("deep/er"), 0o755))
	for link, target := range map[string]string{"near": "file", "far": in("deep/other"), "again": "near", "folder": "deep/er", "deep/er/up": "../third",
		"loop": "loop", "lost": "nowhere/file"} {
		must.OK(t, os.Symlink(target, in(link)))
	}
	for _, c := range []struct{ out, target string }{{"near", "file"}, {"far", "deep/other"}, {"folder/up", "deep/third"}, {"again", "file"}} {
		must.OK(t, writeWhole(in(c.out), []byte(c.out)))
		if data, err := os.ReadFile(in(c.target)); err != nil || string(data) != c.out {
			t.Errorf("%s: %q in %s, %v", c.out, data, c.target, err)
		}
		os.Remove(in("file")) // so that the next link to it dangles again
	}
	for _, out := range []string{"loop", "lost"} {
		if err := writeWhole(in(out), []byte(out)); errs.Code(err) != errs.CodeUsage {
			t.Errorf("%s: %v", out, err)
		}
	}
	for _, link := range []string{"near", "far", "again", "folder/up", "loop", "lost"} {
		if info, err := os.Lstat(in(link)); err != nil || info.Mode().Type() != os.ModeSymlink {
			t.Errorf("the link %s was replaced: %v", link, err)
		}
	}
}
