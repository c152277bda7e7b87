// Package store manages a run's directory: its layout, its schema version, and writes that survive
// the death of the program or the machine at any moment.
//
//	runner   -> [Create], [Dir.WriteHist], [Dir.Append], ... -> files
//	--resume -> [Resume]: the completed trials, and the directory to continue in
//	analysis <- [Load]: the run in memory, a [record.Run]
//
// Files, all below the run directory:
//
//	study.yaml resolved.yaml  the study as given, and with every default
//	machine.json              record.Header; written last when a run is created
//	trials.jsonl              record.Trial, one per line, with the number of its events
//	events.jsonl              record.Event, one per line: the trials' changes and steps; absent if there are none
//	hist/TRIAL.hlog           HDR interval logs, nanoseconds, tags intended, send
//	series/                   recorded metrics, as a Prometheus journal
//	configs/ profiles/        configuration dumps and pprof profiles, by trial
//	requests/TRIAL.jsonl.zst  per-request logs of clients, proxies and workers
//	evidence/TRIAL.json.zst   the evidence that a trial is judged from
//	findings.json             record.Findings, can be regenerated
//	log.txt                   the program's log
//
// Rules of durability: a file that is written once is written under a temporary name, synced and
// renamed, and its directory is synced. A line of trials.jsonl is one write and one sync, and is
// removed again if it fails halfway. Everything else about a trial is in place before its line is.
// A crash leaves at most an incomplete last line, events of a trial without a line (complete or
// with holes), which readers drop with a note, and temporary files, which the next writer removes.
//
// A run may come from an untrusted source: links below its directory are rejected, for reading and
// for writing (see tree.go).
//
// One writer owns a directory through a lock (flock) on the directory itself, which the kernel
// releases however the writer ends. Readers need no lock.
package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/meshtrial/meshtrial/record"
)

// Names of the files in a run directory.
const (
	FileStudy    = "study.yaml"
	FileResolved = "resolved.yaml"
	FileHeader   = "machine.json"
	FileTrials   = "trials.jsonl"
	FileEvents   = "events.jsonl"
	FileFindings = "findings.json"
	FileLog      = "log.txt"
	DirHist      = "hist"
	DirSeries    = "series"
	DirConfigs   = "configs"
	DirProfiles  = "profiles"
	DirRequests  = "requests"
	DirEvidence  = "evidence"
)

const tempPrefix = ".tmp-"

// Dir is a run directory open for writing. Its methods are safe for concurrent use. Close it with
// [Dir.Close].
type Dir struct {
	path string

	mu     sync.Mutex
	lock   *os.File // the directory, locked
	tree   tree     // the same
	trials appender
	events appender // its file is opened with the first event
	log    *os.File
	done   map[string]bool // trial IDs on disk

	eventsLimit int64 // limit of events.jsonl in bytes, for tests; 0 for maxEvents
}

// openAppends opens the files that grow, creating them if necessary.
func (d *Dir) openAppends() error {
	for _, f := range []struct {
		name string
		to   **os.File
	}{{FileTrials, &d.trials.file}, {FileLog, &d.log}} {
		file, err := d.tree.openAppend(f.name, true)
		if err != nil {
			return explain(err, d.path)
		}
		*f.to = file
	}
	size, err := d.trials.file.Seek(0, io.SeekEnd)
	if err != nil {
		return explain(err, d.path)
	}
	d.trials.size, d.trials.tree, d.trials.name = size, d.tree, FileTrials
	return nil
}

// Path returns the run directory as it was given.
func (d *Dir) Path() string { return d.path }

var reTrialID = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)

// WriteHist stores a trial's histograms, an HDR interval log, and returns the path for the trial's
// record. It must be called before Append.
func (d *Dir) WriteHist(trialID string, log []byte) (string, error) {
	if !reTrialID.MatchString(trialID) {
		return "", fmt.Errorf("trial ID %q is not a valid file name", trialID)
	}
	name := DirHist + "/" + trialID + ".hlog"
	return name, d.WriteFile(name, log)
}

// Append makes a trial and its events durable: once it returns nil, they survive any crash. If it
// fails, the files are unchanged. Events are assigned to the trial, and counted in its line.
func (d *Dir) Append(t record.Trial, events ...record.Event) error {
	if t.Schema == 0 {
		t.Schema = record.Schema
	}
	t.EventLines = len(events)
	line, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("trial %s: %w", t.ID, err)
	}
	lines, err := encodeEvents(t.ID, events)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lock == nil {
		return fmt.Errorf("run directory %s is closed", d.path)
	}
	if t.ID == "" || d.done[t.ID] {
		return fmt.Errorf("trial %q is already in %s", t.ID, filepath.Join(d.path, FileTrials))
	}
	if t.Hist != "" {
		file, err := openAt(d.lock, t.Hist, os.O_RDONLY, 0)
		if err != nil {
			return fmt.Errorf("trial %s names histograms that are not stored: %w", t.ID, err)
		}
		file.Close()
	}
	var before int64
	if len(lines) > 0 {
		if before, err = d.appendEvents(lines); err != nil {
			return explain(fmt.Errorf("events of trial %s: %w", t.ID, err), d.path)
		}
	}
	if err := d.trials.append(append(line, '\n')); err != nil {
		if len(lines) > 0 {
			err = errors.Join(err, d.events.cut(before))
		}
		return explain(fmt.Errorf("trial %s: %w", t.ID, err), d.path)
	}
	d.done[t.ID] = true
	return nil
}

// WriteFindings stores findings.json.
func (d *Dir) WriteFindings(f record.Findings) error {
	data, err := indent(f)
	if err != nil {
		return fmt.Errorf("findings: %w", err)
	}
	return d.WriteFile(FileFindings, data)
}

// WriteProfile stores a profile of a trial, such as istiod's CPU profile,
// under profiles/ and returns its path relative to the run directory.
func (d *Dir) WriteProfile(trialID, name string, data []byte) (string, error) {
	return d.writeOf(DirProfiles, trialID, name, data)
}

// WriteConfig is [Dir.WriteProfile] for a configuration dump, under configs/.
func (d *Dir) WriteConfig(trialID, name string, data []byte) (string, error) {
	return d.writeOf(DirConfigs, trialID, name, data)
}

func (d *Dir) writeOf(dir, trialID, name string, data []byte) (string, error) {
	if !reTrialID.MatchString(trialID) || !reFileName.MatchString(name) {
		return "", fmt.Errorf("trial ID %q and name %q are not a valid file name", trialID, name)
	}
	path := dir + "/" + trialID + "-" + name
	if err := d.need(dir); err != nil {
		return "", err
	}
	return path, d.WriteFile(path, data)
}

// private reports whether a file or directory of the run must be readable only by its owner. The
// configuration and logs of a mesh's proxies contain the names of its services and addresses, and a
// heap profile's labels may too.
func private(name string) bool {
	top, _, _ := strings.Cut(filepath.ToSlash(filepath.Clean(name)), "/")
	return top == DirConfigs || top == DirProfiles || top == DirRequests || top == DirEvidence
}

var reFileName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// need durably creates a directory of the run unless it exists.
func (d *Dir) need(name string) error {
	folder, err := d.tree.folder(filepath.ToSlash(name))
	if err != nil {
		return explain(err, d.path)
	}
	return folder.Close()
}

// Subdir durably creates a directory of the run unless it exists, and returns its path in this
// process, for others to write into.
func (d *Dir) Subdir(name string) (string, error) {
	if !filepath.IsLocal(name) {
		return "", fmt.Errorf("directory %q would lie outside the run directory", name)
	}
	if err := d.need(name); err != nil {
		return "", err
	}
	path, err := Folder(d.path, name)
	return path, explain(err, d.path)
}

// WriteFile stores a file of the run atomically. name is relative to the run directory; its
// directory must exist.
func (d *Dir) WriteFile(name string, data []byte) error {
	if !filepath.IsLocal(name) {
		return fmt.Errorf("file %q would lie outside the run directory", name)
	}
	mode := fs.FileMode(0o644)
	if private(name) {
		mode = 0o600
	}
	return explain(d.tree.write(name, data, mode), d.path)
}

// Log returns a writer that appends to log.txt. It is a convenience for users: its data is not
// synced, and a full disk is not an error.
func (d *Dir) Log() io.Writer { return logWriter{d} }

type logWriter struct{ d *Dir }

func (w logWriter) Write(p []byte) (int, error) {
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	if w.d.log != nil {
		_, _ = w.d.log.Write(p) // an unwritable log must not end the run
	}
	return len(p), nil
}

// Close releases the directory. Data is durable even without it.
func (d *Dir) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lock == nil {
		return nil
	}
	err := d.closeFiles()
	err = errors.Join(err, d.lock.Close())
	d.lock = nil
	return err
}

func (d *Dir) closeFiles() error {
	var err error
	for _, f := range []**os.File{&d.trials.file, &d.events.file, &d.log} {
		if *f != nil {
			err = errors.Join(err, (*f).Close())
			*f = nil
		}
	}
	return err
}

func indent(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
