package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// within is the number of runs in which a test may need one retry.
const within = 10

// tries is one run of tests in the history: the tests that needed a retry.
type tries struct {
	Time  time.Time `json:"time"`
	Tests []string  `json:"tests"`
}

// history is the file of retries, one line per run, the newest last.
type history struct {
	path string // "" if there is none
	out  io.Writer
	runs []tries
}

// openHistory reads the user's history, which may be missing.
func openHistory(out io.Writer) *history {
	h := &history{out: out}
	dir, err := os.UserCacheDir()
	if err != nil {
		h.complain(err)
		return h
	}
	h.path = filepath.Join(dir, "meshtrial", "second-tries.jsonl")
	text, err := os.ReadFile(h.path)
	if err != nil && !os.IsNotExist(err) {
		h.complain(err)
		return h
	}
	h.runs = readTries(text)
	return h
}

func (h *history) complain(err error) {
	fmt.Fprintf(h.out, "second tries of earlier runs are not known: %v\n", err)
}

// readTries parses the runs of a history, skipping invalid lines.
func readTries(text []byte) []tries {
	var out []tries
	for line := range bytes.Lines(text) {
		var r tries
		if json.Unmarshal(line, &r) == nil {
			out = append(out, r)
		}
	}
	return out[max(0, len(out)-within+1):]
}

// judge fails tests that needed a retry both now and in one of the previous
// runs, and adds this run.
func (h *history) judge(t *tally) {
	now := tries{Time: time.Now().UTC(), Tests: []string{}}
	for _, r := range t.disturbed {
		now.Tests = append(now.Tests, r.String())
		for _, run := range h.runs {
			if slices.Contains(run.Tests, r.String()) {
				r.reason = fmt.Sprintf("it needed a second try, for the second time in %d runs (before: %s)\n%s", within, run.Time.Format(time.DateTime), r.reason)
				t.passed = slices.DeleteFunc(t.passed, r.same)
				t.failed = append(t.failed, r)
				break
			}
		}
	}
	h.runs = append(h.runs, now)
	if err := h.write(); err != nil {
		h.complain(err)
	}
}

func (h *history) write() error {
	if h.path == "" {
		return nil
	}
	var text bytes.Buffer
	for _, r := range h.runs {
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		text.Write(append(line, '\n'))
	}
	if err := os.MkdirAll(filepath.Dir(h.path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(h.path, text.Bytes(), 0o644)
}
