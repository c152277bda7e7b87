package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
)

// measured creates a run of four trials with histograms and three changes each.
func measured(t *testing.T) string {
	t.Helper()
	d := create(t)
	for i := range 4 {
		tr := trial(i)
		tr.Validity.Valid = true
		var err error
		tr.Hist, err = d.WriteHist(tr.ID, hist(t, []int64{1000}, []int64{900}))
		must.OK(t, err)
		must.OK(t, d.Append(tr, changes(i, 3)...))
	}
	must.OK(t, d.Close())
	return d.Path()
}

// Anything but a regular file is rejected at once: opening a pipe would wait
// forever for a writer.
func TestOpenRefusesWhatIsNoFile(t *testing.T) {
	for _, name := range []string{FileHeader, FileStudy, FileResolved, FileTrials, FileEvents, FileLog} {
		for kind, put := range map[string]func(string) error{
			"pipe":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
			"folder": func(path string) error { return os.Mkdir(path, 0o700) },
		} {
			path := measured(t)
			os.Remove(filepath.Join(path, name))
			must.OK(t, put(filepath.Join(path, name)))
			check := func(what string, read func() error) {
				done := make(chan error, 1)
				go func() { done <- read() }()
				select {
				case err := <-done:
					if err == nil || !strings.Contains(err.Error(), name) || errs.Code(err) != errs.CodeUsage || errs.Hint(err) == "" {
						t.Errorf("%s of %s that is a %s: %v, hint %q, code %d", what, name, kind, err, errs.Hint(err), errs.Code(err))
					}
				case <-time.After(time.Minute):
					t.Fatalf("%s of %s that is a %s hangs", what, name, kind)
				}
			}
			if name != FileLog { // which is only written
				check("load", func() error { _, _, err := Load(t.Context(), path); return err })
			}
			check("resume", func() error { _, _, err := Resume(path, nil, 0); return err })
		}
	}
}

// A lost histogram invalidates only its own trial.
func TestHistLost(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"missing":   os.Remove,
		"empty":     func(path string) error { return os.WriteFile(path, []byte("no histogram\n"), 0o600) },
		"too large": func(path string) error { return os.Truncate(path, maxHistFile+1) },
		"a pipe": func(path string) error {
			return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600))
		},
	} {
		path := measured(t)
		lost := trial(2).ID
		must.OK(t, damage(filepath.Join(path, DirHist, lost+".hlog")))
		run, notes, err := Load(t.Context(), path)
		if err != nil || len(run.Trials) != 4 || len(run.Hist) != 3 || len(run.Events) != 12 {
			t.Errorf("%s: %v: %d trials, %d histograms, %d changes", name, err, len(run.Trials), len(run.Hist), len(run.Events))
			continue
		}
		if len(notes) != 1 || !strings.Contains(notes[0], lost) {
			t.Errorf("%s: notes %q", name, notes)
		}
		for _, tr := range run.Trials {
			checks := tr.Validity.Checks
			if tr.Validity.Valid != (tr.ID != lost) || (len(checks) > 0) != (tr.ID == lost) {
				t.Errorf("%s: trial %s: %+v", name, tr.ID, tr.Validity)
			}
			if tr.ID == lost && (checks[0].OK || checks[0].Name != CheckStored || !strings.Contains(checks[0].Detail, "hist")) {
				t.Errorf("%s: %+v", name, checks)
			}
		}
	}
}

// A lost line of a trial loses exactly that trial's changes.
func TestTrialLineLost(t *testing.T) {
	path := measured(t)
	spoilLine(t, filepath.Join(path, FileTrials), 1)
	run, notes, err := Load(t.Context(), path)
	if err != nil || len(run.Trials) != 3 || len(run.Events) != 9 {
		t.Fatalf("%v: %d trials, %d changes", err, len(run.Trials), len(run.Events))
	}
	if len(notes) != 2 || !strings.Contains(notes[0], FileTrials+":2:") || !strings.Contains(notes[1], "dropped 3 changes of trial "+trial(1).ID) {
		t.Errorf("notes %q", notes)
	}
	for _, e := range run.Events {
		if e.Trial == trial(1).ID {
			t.Errorf("a change of the lost trial: %+v", e)
		}
	}
}

// It is uncertain whether a lost change belonged to the trial before or after
// it, so neither is valid.
func TestEventLineLost(t *testing.T) {
	for line, doubted := range map[int][]string{
		4: {trial(1).ID},              // in the middle of a trial's
		6: {trial(1).ID, trial(2).ID}, // the first of a trial's
		0: {trial(0).ID},
	} {
		path := measured(t)
		spoilLine(t, filepath.Join(path, FileEvents), line)
		run, notes, err := Load(t.Context(), path)
		if err != nil || len(run.Trials) != 4 || len(run.Events) != 11 || len(notes) != 1 || !strings.Contains(notes[0], FileEvents+":") {
			t.Fatalf("line %d: %v: %d trials, %d changes, notes %q", line, err, len(run.Trials), len(run.Events), notes)
		}
		for _, tr := range run.Trials {
			if want := strings.Contains(strings.Join(doubted, " "), tr.ID); tr.Validity.Valid == want {
				t.Errorf("line %d: trial %s: %+v", line, tr.ID, tr.Validity)
			}
		}
		if _, _, err := Resume(path, nil, 0); errs.Code(err) != errs.CodeUsage || errs.Hint(err) == "" {
			t.Errorf("line %d: resume: %v", line, err)
		}
	}
}

// Lines of events.jsonl that are missing entirely leave no trace in it. The
// record of their trial reveals them, and only that trial is invalid.
func TestEventLinesGone(t *testing.T) {
	without := func(gone ...int) func(string) error {
		return func(path string) error { return dropLines(path, gone...) }
	}
	for name, c := range map[string]struct {
		damage  func(events string) error
		doubted map[int]int // trials with the number of their three events that are left
	}{
		"the last":      {without(11), map[int]int{3: 2}},
		"a trial's all": {without(3, 4, 5), map[int]int{1: 0}},
		"of two":        {without(0, 7), map[int]int{0: 2, 2: 2}},
		"the file":      {os.Remove, map[int]int{0: 0, 1: 0, 2: 0, 3: 0}},
		"half the last": {func(path string) error {
			info, err := os.Stat(path)
			return errors.Join(err, os.Truncate(path, info.Size()-9))
		}, map[int]int{3: 2}},
	} {
		path := measured(t)
		must.OK(t, c.damage(filepath.Join(path, FileEvents)))
		run, notes, err := Load(t.Context(), path)
		if err != nil || len(run.Trials) != 4 {
			t.Fatalf("%s: %v: %d trials", name, err, len(run.Trials))
		}
		for i, tr := range run.Trials {
			left, doubted := c.doubted[i]
			if tr.Validity.Valid == doubted {
				t.Errorf("%s: trial %s: %+v", name, tr.ID, tr.Validity)
				continue
			}
			if !doubted {
				continue
			}
			why := fmt.Sprintf("events.jsonl has %d of its 3 lines", left)
			if check := tr.Validity.Checks[0]; check.Name != CheckStored || check.OK || check.Detail != why {
				t.Errorf("%s: trial %s: %+v, want %s", name, tr.ID, check, why)
			}
			if !slices.Contains(notes, "trial "+tr.ID+" is not valid: "+why) {
				t.Errorf("%s: notes %q", name, notes)
			}
		}
		if _, _, err := Resume(path, nil, 0); errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), "of its 3 lines") || !strings.Contains(errs.Hint(err), "delete its line in trials.jsonl") {
			t.Errorf("%s: resume: %v, hint %q", name, err, errs.Hint(err))
		}
	}
}

// dropLines removes whole lines, counted from 0, from a file.
func dropLines(path string, gone ...int) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var out []string
	for i, line := range strings.SplitAfter(string(data), "\n") {
		if !slices.Contains(gone, i) {
			out = append(out, line)
		}
	}
	return os.WriteFile(path, []byte(strings.Join(out, "")), 0o600)
}

// spoilLine makes one line of a file, counted from 0, unreadable.
func spoilLine(t *testing.T, path string, line int) {
	t.Helper()
	data, err := os.ReadFile(path)
	must.OK(t, err)
	lines := strings.SplitAfter(string(data), "\n")
	lines[line] = "\x00" + lines[line][1:]
	must.OK(t, os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600))
}

// A file that is missing, or larger than any run's, is an input error with advice. It is not read into memory.
func TestUnusableFiles(t *testing.T) {
	for _, name := range []string{FileHeader, FileStudy, FileResolved, FileTrials} {
		for says, damage := range map[string]func(string) error{
			"":                       os.Remove,
			name + " is longer than": func(path string) error { return os.Truncate(path, 1<<40) },
		} {
			path := measured(t)
			must.OK(t, damage(filepath.Join(path, name)))
			_, _, err := Load(t.Context(), path)
			if errs.Code(err) != errs.CodeUsage || errs.Hint(err) == "" || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v, hint %q, code %d, want %q", name, err, errs.Hint(err), errs.Code(err), says)
			}
		}
	}
}

// Reading a long run ends when it is canceled.
func TestLoadCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if run, _, err := Load(ctx, measured(t)); !errors.Is(err, context.Canceled) || errs.Code(err) != errs.CodeInterrupted {
		t.Errorf("%d trials, %v", len(run.Trials), err)
	}
}
