package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
)

var header = record.Header{Kind: record.KindDataPlane, RunID: "r1", Study: "quick", Seed: 7, Lab: "local", Started: time.Unix(1_700_000_000, 0).UTC()}

func trial(i int) record.Trial {
	return record.Trial{
		Schema: record.Schema, ID: fmt.Sprintf("b%03d-t%02d", i/5, i%5), Block: i / 5, Order: i % 5,
		Cell:    record.Cell{"sidecars": "both", "note": "a,b\n\"quoted\" é"},
		Started: time.Unix(1_700_000_000+int64(i), 0).UTC(),
		Window:  record.Window{Seconds: 2, Intervals: 8},
		Load:    &record.Load{Scheduled: 10, Completed: 9, Unfinished: 1, Failed: map[string]int64{}},
	}
}

func create(t *testing.T) *Dir {
	t.Helper()
	d, err := Create(filepath.Join(t.TempDir(), "run"), header, []byte("source"), []byte("resolved"))
	must.OK(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

func hist(t *testing.T, intended, send []int64) []byte {
	t.Helper()
	var b bytes.Buffer
	w := hdrhistogram.NewHistogramLogWriter(&b)
	must.OK(t, w.OutputLogFormatVersion())
	for i := range intended {
		for tag, v := range map[string]int64{TagIntended: intended[i], TagSend: send[i]} {
			h := hdrhistogram.New(1, histHigh, histDigits)
			must.OK(t, h.RecordValue(v))
			h.SetTag(tag)
			h.SetStartTimeMs(int64(i) * 250)
			h.SetEndTimeMs(int64(i+1) * 250)
			must.OK(t, w.OutputIntervalHistogram(h))
		}
	}
	return b.Bytes()
}

func TestWriteAndLoad(t *testing.T) {
	d := create(t)
	var want []record.Trial
	for i := range 7 {
		tr := trial(i)
		if i != 3 { // a trial without a window
			name, err := d.WriteHist(tr.ID, hist(t, []int64{1000, 2000, 3000}, []int64{900, 1900, 2900}))
			must.OK(t, err)
			tr.Hist = name
		}
		must.OK(t, d.Append(tr))
		want = append(want, tr)
	}
	fmt.Fprintln(d.Log(), "hello")
	must.OK(t, d.WriteFindings(record.Findings{Schema: record.Schema, Study: "quick"}))
	// A run can be read while it is being written.
	run, notes, err := Load(t.Context(), d.Path())
	if err != nil || len(notes) != 0 {
		t.Fatal(err, notes)
	}
	if !reflect.DeepEqual(run.Trials[0].Cell, want[0].Cell) || len(run.Trials) != 7 || string(run.StudyYAML) != "resolved" {
		t.Errorf("run: %+v", run)
	}
	h := header
	h.Schema = record.Schema
	if !reflect.DeepEqual(run.Header, h) {
		t.Errorf("header: %+v", run.Header)
	}
	if len(run.Hist) != 6 {
		t.Errorf("%d histograms", len(run.Hist))
	}
	got := run.Hist[want[0].ID]
	if got.Intended.TotalCount() != 3 || got.Send.TotalCount() != 3 || got.Intended.Max() < 3000 || got.Intended.Max() > 3003 || got.Send.Min() > 900 {
		t.Errorf("histograms: %d %d %d", got.Intended.TotalCount(), got.Send.TotalCount(), got.Intended.Max())
	}
	var findings record.Findings
	if data, err := os.ReadFile(filepath.Join(d.Path(), FileFindings)); err != nil {
		t.Error(err)
	} else if err := json.Unmarshal(data, &findings); err != nil || findings.Study != "quick" {
		t.Errorf("findings: %+v %v", findings, err)
	}
	if log, _ := os.ReadFile(filepath.Join(d.Path(), FileLog)); string(log) != "hello\n" {
		t.Errorf("log: %q", log)
	}
	for name, text := range map[string]string{FileStudy: "source", FileResolved: "resolved"} {
		if got, _ := os.ReadFile(filepath.Join(d.Path(), name)); string(got) != text {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestAppendRefuses(t *testing.T) {
	d := create(t)
	must.OK(t, d.Append(trial(1)))
	if err := d.Append(trial(1)); err == nil {
		t.Error("a trial is stored twice")
	}
	lost := trial(2)
	lost.Hist = "hist/nothing.hlog"
	if err := d.Append(lost); err == nil {
		t.Error("a trial without its histograms is stored")
	}
	for _, id := range []string{"", "../x", "a/b", ".", "A", strings.Repeat("x", 100)} {
		if _, err := d.WriteHist(id, nil); err == nil {
			t.Errorf("histograms %q are stored", id)
		}
	}
	for _, name := range []string{"../x", "/etc/x", ""} {
		if err := d.WriteFile(name, nil); err == nil {
			t.Errorf("file %q is stored", name)
		}
	}
	must.OK(t, d.Close())
	if err := d.Append(trial(3)); err == nil {
		t.Error("a closed directory takes a trial")
	}
}

func TestCreateRefuses(t *testing.T) {
	d := create(t)
	_, err := Create(d.Path(), header, nil, nil)
	if errs.Code(err) != errs.CodeUsage || !strings.Contains(errs.Hint(err), "--resume") {
		t.Errorf("an existing run: %v (%s)", err, errs.Hint(err))
	}
	other := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(other, "mine"), nil, 0o644))
	if _, err := Create(other, header, nil, nil); errs.Code(err) != errs.CodeUsage {
		t.Errorf("a directory with files: %v", err)
	}
	if _, err := Create(filepath.Join(other, "mine"), header, nil, nil); errs.Code(err) != errs.CodeUsage {
		t.Errorf("a file: %v", err)
	}
	empty := t.TempDir()
	made, err := Create(empty, header, nil, nil)
	if err != nil {
		t.Fatalf("an empty directory: %v", err)
	}
	made.Close()
}

func TestLock(t *testing.T) {
	d := create(t)
	if _, _, err := Resume(d.Path(), nil, 0); errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), "another meshtrial") {
		t.Errorf("two writers: %v", err)
	}
	must.OK(t, d.Close())
	again, _, err := Resume(d.Path(), nil, 0)
	must.OK(t, err)
	again.Close()
}

func TestResumeChecks(t *testing.T) {
	d := create(t)
	must.OK(t, d.Append(trial(0)))
	d.Close()
	if _, _, err := Resume(d.Path(), []byte("another"), 0); errs.Code(err) != errs.CodeUsage {
		t.Errorf("a different study: %v", err)
	}
	if _, _, err := Resume(d.Path(), nil, 8); errs.Code(err) != errs.CodeUsage {
		t.Errorf("another seed: %v", err)
	}
	must.OK(t, os.WriteFile(filepath.Join(d.Path(), DirHist, ".tmp-b000-t00.hlog-1"), []byte("half"), 0o600))
	again, c, err := Resume(d.Path(), []byte("resolved"), 7)
	must.OK(t, err)
	defer again.Close()
	if len(c.Trials) != 1 || c.Header.Seed != 7 || string(c.Study) != "source" {
		t.Errorf("%+v", c)
	}
	if left, _ := os.ReadDir(filepath.Join(d.Path(), DirHist)); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
	if err := again.Append(trial(0)); err == nil {
		t.Error("a completed trial is stored again")
	}
	if err := again.Append(trial(1)); err != nil {
		t.Error(err)
	}
}

// kill -9 at any moment: whatever the length of the file of trials, all
// complete lines are present, and the run continues after them.
func TestTruncatedAtEveryByte(t *testing.T) {
	d := create(t)
	for i := range 3 {
		must.OK(t, d.Append(trial(i)))
	}
	d.Close()
	path := filepath.Join(d.Path(), FileTrials)
	whole, err := os.ReadFile(path)
	must.OK(t, err)
	for cut := 0; cut <= len(whole); cut++ {
		must.OK(t, os.WriteFile(path, whole[:cut], 0o644))
		want := bytes.Count(whole[:cut], []byte("\n"))
		torn := cut > 0 && whole[cut-1] != '\n'
		c, err := Read(d.Path())
		if err != nil || len(c.Trials) != want || (len(c.Notes) == 1) != torn {
			t.Fatalf("cut at %d: %d trials of %d, notes %v, %v", cut, len(c.Trials), want, c.Notes, err)
		}
		if atEnd := cut > 0 && !torn || cut < len(whole) && whole[cut] == '\n'; !atEnd && cut%13 != 0 {
			continue // resuming syncs, which is slow: not after every byte
		}
		again, c, err := Resume(d.Path(), nil, 0)
		if err != nil || len(c.Trials) != want {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		must.OK(t, again.Append(trial(9)))
		again.Close()
		if c, err = Read(d.Path()); err != nil || len(c.Trials) != want+1 || len(c.Notes) != 0 {
			t.Fatalf("cut at %d, gone on: %d trials, notes %v, %v", cut, len(c.Trials), c.Notes, err)
		}
	}
}

// A machine that lost power may leave a last line of zeros or garbage. An
// invalid line before others is not the result of an interrupted write.
func TestDamagedLines(t *testing.T) {
	d := create(t)
	for i := range 2 {
		must.OK(t, d.Append(trial(i)))
	}
	d.Close()
	path := filepath.Join(d.Path(), FileTrials)
	whole, _ := os.ReadFile(path)
	for name, c := range map[string]struct {
		data    string
		fails   bool
		resumes bool
	}{
		"zeros at the end":   {string(whole) + strings.Repeat("\x00", 50), false, true},
		"garbage line":       {string(whole) + "{\"schema\": 1, \n", false, true},
		"damage in between":  {"garbage\n" + string(whole), false, false},
		"empty line between": {"\n" + string(whole), false, false},
		"a trial of numbers": {"{\"schema\": 1, \"id\": 5}\n" + string(whole), false, false},
		"nothing but damage": {"\x7fELF\n\x00\n\x01\n", true, false},
		"a line twice":       {string(whole) + string(whole), true, false},
		"newer schema":       {string(whole) + "{\"schema\": 99, \"id\": \"x\"}\n", true, false},
		"no schema":          {string(whole) + "{}\n", true, false},
	} {
		must.OK(t, os.WriteFile(path, []byte(c.data), 0o644))
		got, err := Read(d.Path())
		if (err != nil) != c.fails {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && (len(got.Trials) != 2 || len(got.Notes) != 1) {
			t.Errorf("%s: %d trials, notes %v", name, len(got.Trials), got.Notes)
		}
		if err != nil && (!strings.Contains(err.Error(), FileTrials+":") || errs.Code(err) != errs.CodeUsage || errs.Hint(err) == "") {
			t.Errorf("%s: %v, hint %q, code %d", name, err, errs.Hint(err), errs.Code(err))
		}
		again, _, err := Resume(d.Path(), nil, 0)
		if (err == nil) != c.resumes {
			t.Errorf("%s: resume: %v", name, err)
		}
		if err == nil {
			again.Close()
		} else if now, _ := os.ReadFile(path); string(now) != c.data || errs.Code(err) != errs.CodeUsage || errs.Hint(err) == "" {
			t.Errorf("%s: resume: %v, hint %q, changed the file %t", name, err, errs.Hint(err), string(now) != c.data)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	must.OK(t, os.WriteFile(file, nil, 0o644))
	for _, path := range []string{dir, file, filepath.Join(dir, "nothing")} {
		if _, _, err := Load(t.Context(), path); errs.Code(err) != errs.CodeUsage {
			t.Errorf("%s: %v", path, err)
		}
	}
	d := create(t)
	d.Close()
	name := filepath.Join(d.Path(), FileHeader)
	for _, schema := range []int{record.Schema - 1, record.Schema + 1} {
		must.OK(t, os.WriteFile(name, fmt.Appendf(nil, `{"schema": %d, "meshtrial": "v7"}`, schema), 0o644))
		for what, read := range map[string]func() error{
			"load":   func() error { _, _, err := Load(t.Context(), d.Path()); return err },
			"read":   func() error { _, err := Read(d.Path()); return err },
			"resume": func() error { _, _, err := Resume(d.Path(), nil, 0); return err },
		} {
			if err := read(); errs.Code(err) != errs.CodeUsage || !strings.Contains(errs.Hint(err), "(v7)") {
				t.Errorf("%s of schema %d: %v (%s)", what, schema, err, errs.Hint(err))
			}
		}
	}
	must.OK(t, os.WriteFile(name, []byte(`{"schema": `), 0o644))
	if _, _, err := Load(t.Context(), d.Path()); errs.Code(err) != errs.CodeUsage || errs.Hint(err) == "" {
		t.Errorf("a torn header: %v, hint %q", err, errs.Hint(err))
	}
}

func TestHistOutside(t *testing.T) {
	d := create(t)
	bad := trial(0)
	bad.Hist = "../../../etc/passwd"
	if _, err := readHist(d.Path(), bad); err == nil || !strings.Contains(err.Error(), "outside") {
		t.Errorf("got %v", err)
	}
}

// A log that lost some bytes is not mistaken for a shorter one.
func TestMergeHistDamaged(t *testing.T) {
	whole := hist(t, []int64{1000, 2000}, []int64{900, 1900})
	must.OK(t, must.Err(MergeHist(whole)))
	for cut := 1; cut < len(whole); cut++ {
		h, err := MergeHist(whole[:cut])
		lines := bytes.Count(whole[:cut], []byte("Tag="))
		if err == nil && h.Intended.TotalCount()+h.Send.TotalCount() != int64(lines) {
			t.Fatalf("cut at %d: %d values of %d lines, no error", cut, h.Intended.TotalCount()+h.Send.TotalCount(), lines)
		}
	}
	for _, bad := range []string{"garbage\n", "Tag=other,0.0,0.25,1.0,HIST\n", "Tag=send\n", "Tag=send,1,2,3\n"} {
		if _, err := MergeHist(append([]byte(bad), whole...)); err == nil {
			t.Errorf("%q is passed over", bad)
		}
	}
}

// failing writes part of its input and then fails, like a full disk, or cannot sync it.
type failing struct {
	file
	room  int
	syncs error
}

func (f failing) Write(p []byte) (int, error) {
	if len(p) <= f.room {
		return f.file.Write(p)
	}
	n, err := f.file.Write(p[:f.room])
	if err == nil {
		err = &os.PathError{Op: "write", Path: "trials", Err: syscall.ENOSPC}
	}
	return n, err
}

func (f failing) Sync() error { return errors.Join(f.syncs, f.file.Sync()) }

// A trial that may not have reached the disk does not count, and nothing more is stored until the run is resumed.
func TestNotSynced(t *testing.T) {
	d := create(t)
	must.OK(t, d.Append(trial(0)))
	d.trials.wrap = func(f *os.File) file { return failing{file: f, room: 1 << 20, syncs: syscall.EIO} }
	if err := d.Append(trial(1)); err == nil {
		t.Fatal("a trial that was not synced counts as stored")
	}
	d.trials.wrap = nil
	if err := d.Append(trial(1)); err == nil || !strings.Contains(err.Error(), "could not be rolled back") {
		t.Fatalf("after a disk error: %v", err)
	}
	d.Close()
	again, c, err := Resume(d.Path(), nil, 0)
	if err != nil || len(c.Trials) != 1 {
		t.Fatalf("%d trials, %v", len(c.Trials), err)
	}
	defer again.Close()
	must.OK(t, again.Append(trial(1)))
}

// A run that could not be kept is refused before anything is started for it.
func TestRoom(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, Room(filepath.Join(dir, "runs", "quick-1")))
	for free, want := range map[uint64]string{needRoom: "", needRoom - 1: "7 MB free, at least 8 MB needed"} {
		if err := enough(free, dir); (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || errs.Code(err) != errs.CodeUsage || !strings.Contains(errs.Hint(err), "volume")) {
			t.Errorf("%d bytes: %v (%s)", free, err, errs.Hint(err))
		}
	}
	mount := func(flags uintptr, options string) {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", flags, options); err != nil {
			t.Skipf("a tmpfs cannot be mounted: %v", err)
		}
		t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	}
	mount(0, "size=0") // without a limit it reports no blocks
	if err := Room(filepath.Join(dir, "runs")); err != nil {
		t.Errorf("its size is unknown: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := Room("/proc/runs"); errs.Code(err) != errs.CodeUsage || !strings.Contains(errs.Hint(err), "--out") {
		t.Errorf("it has no size, and nobody can write there: %v (%s)", err, errs.Hint(err))
	}
	mount(syscall.MS_RDONLY, "")
	if err := Room(filepath.Join(dir, "runs")); !errors.Is(err, syscall.EROFS) || errs.Code(err) != errs.CodeUsage || !strings.Contains(errs.Hint(err), "--out") {
		t.Errorf("it is only read: %v (%s)", err, errs.Hint(err))
	}
}

// On a file system that is really full no partial data is left. Requires root
// for a small tmpfs.
func TestDiskReallyFull(t *testing.T) {
	mount := t.TempDir()
	if err := syscall.Mount("tmpfs", mount, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("a small tmpfs cannot be mounted: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(mount, syscall.MNT_DETACH) })
	d, err := Create(filepath.Join(mount, "run"), header, []byte("s"), []byte("r"))
	must.OK(t, err)
	defer d.Close()
	stored := 0
	for i := 0; ; i++ {
		tr := trial(i)
		name, err := d.WriteHist(tr.ID, bytes.Repeat([]byte("# hist\n"), 2000))
		if err == nil {
			tr.Hist = name
			err = d.Append(tr)
		}
		if err != nil {
			if !errors.Is(err, syscall.ENOSPC) || errs.Hint(err) == "" {
				t.Fatalf("full disk: %v", err)
			}
			break
		}
		stored++
		if stored > 1000 {
			t.Fatal("the disk does not fill")
		}
	}
	if err := d.WriteFindings(record.Findings{Schema: 1, Question: strings.Repeat("x", 300_000)}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("findings: %v", err)
	}
	if _, err := os.Stat(filepath.Join(d.Path(), FileFindings)); err == nil {
		t.Error("half a findings.json is left")
	}
	filepath.WalkDir(d.Path(), func(path string, _ os.DirEntry, _ error) error {
		if strings.HasPrefix(filepath.Base(path), tempPrefix) {
			t.Errorf("left over: %s", path)
		}
		return nil
	})
	c, err := Read(d.Path())
	if err != nil || len(c.Trials) != stored {
		t.Errorf("%d trials of %d, %v", len(c.Trials), stored, err)
	}
	// No space for a run: nothing of it is left.
	if _, err := Create(filepath.Join(mount, "other"), header, bytes.Repeat([]byte("x"), 300_000), nil); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a run without room: %v", err)
	}
	if _, err := os.Stat(filepath.Join(mount, "other")); err == nil {
		t.Error("half a run is left")
	}
}

func FuzzTrials(f *testing.F) {
	f.Add([]byte("{\"schema\":1,\"id\":\"a\"}\n{\"schema\":1,\"id\":\"b\"}\n"))
	f.Add([]byte("{\"schema\":1,\"id\":\"a\"}\n{\"schema\""))
	f.Add([]byte("\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		trials, whole, notes, err := parseTrials("trials.jsonl", data, nil)
		lost := &loss{}
		kept, n, _, lenient := parseTrials("trials.jsonl", data, lost)
		if err == nil && (lenient != nil || lost.first != nil || n != whole || !reflect.DeepEqual(kept, trials)) {
			t.Fatalf("nothing is damaged, yet %v, %v: %d trials of %d", lenient, lost.first, len(kept), len(trials))
		}
		if err != nil && lenient == nil && lost.first == nil {
			t.Fatalf("%v is passed over", err)
		}
		if err != nil {
			return
		}
		if whole < 0 || whole > int64(len(data)) || (whole < int64(len(data))) != (len(notes) == 1) {
			t.Fatalf("%d bytes of %d are whole, notes %v", whole, len(data), notes)
		}
		// The complete part reads back as the same trials, without notes.
		again, n, notes, err := parseTrials("trials.jsonl", data[:whole], nil)
		if err != nil || n != whole || len(notes) != 0 || !reflect.DeepEqual(again, trials) {
			t.Fatalf("read again: %d trials of %d, %v, %v", len(again), len(trials), notes, err)
		}
	})
}
