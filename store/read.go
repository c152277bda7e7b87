package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/meshmark/meshmark/errs"
	"github.com/meshmark/meshmark/record"
)

// Contents are a run's records without its histograms; [Read] leaves out the
// events too.
type Contents struct {
	Header   record.Header
	Study    []byte // study.yaml as given
	Resolved []byte // resolved.yaml
	Trials   []record.Trial
	Events   []record.Event // of the trials, in the order they were made
	// Notes say what was dropped, as an unfinished last line.
	Notes []string
}

// Resume opens the directory of an earlier run to go on with it. Resolved
// and seed, if not nil and 0, must be that run's, or it fails: trials of
// different studies must not meet in one run. An unfinished last line is
// removed from the file.
func Resume(path string, resolved []byte, seed uint64) (dir *Dir, c Contents, err error) {
	if _, err := readHeader(path); err != nil {
		return nil, Contents{}, err
	}
	lock, err := lockDir(path)
	if err != nil {
		return nil, Contents{}, err
	}
	d := &Dir{path: path, lock: lock, done: map[string]bool{}}
	defer func() {
		if err != nil {
			d.closeFiles()
			lock.Close()
			dir, c = nil, Contents{}
		}
	}()
	c, whole, err := read(path)
	if err != nil {
		return nil, c, err
	}
	wholeEvents, err := c.readEvents(path)
	if err != nil {
		return nil, c, err
	}
	if resolved != nil && !bytes.Equal(resolved, c.Resolved) {
		return nil, c, errs.WithHint(errs.Usage("run %s was made from another study, or other --set flags", path),
			"leave the study out to go on with its own, %s", filepath.Join(path, FileResolved))
	}
	if seed != 0 && seed != c.Header.Seed {
		return nil, c, errs.WithHint(errs.Usage("run %s has seed %d, not %d", path, c.Header.Seed, seed),
			"leave the seed out to go on with its own")
	}
	if err := os.MkdirAll(filepath.Join(path, DirHist), 0o755); err != nil {
		return nil, c, explain(err, path)
	}
	if err := d.openAppends(); err != nil {
		return nil, c, err
	}
	if err := d.resumeEvents(wholeEvents); err != nil {
		return nil, c, explain(err, path)
	}
	if err := d.trials.cut(whole); err != nil {
		return nil, c, explain(err, path)
	}
	d.removeTemps()
	for _, t := range c.Trials {
		d.done[t.ID] = true
	}
	return d, c, nil
}

// Read reads a run's records, neither its histograms nor its events.
func Read(path string) (Contents, error) {
	c, _, err := read(path)
	return c, err
}

// readEvents fills in the events and returns how much of their file holds
// what ended. It comes after the trials were read: a run that is written
// meanwhile has the events of every trial it tells of.
func (c *Contents) readEvents(path string) (whole int64, err error) {
	events, whole, notes, err := readEvents(path, c.Trials)
	if err != nil {
		return 0, damaged(path, err)
	}
	c.Events, c.Notes = events, append(c.Notes, notes...)
	return whole, nil
}

// Load reads a run whole, as analysis takes it. The notes say what was
// dropped. It changes nothing, so a run can be read while it is written.
func Load(path string) (run record.Run, notes []string, err error) {
	c, _, err := read(path)
	if err != nil {
		return record.Run{}, nil, err
	}
	if _, err := c.readEvents(path); err != nil {
		return record.Run{}, nil, err
	}
	run = record.Run{Header: c.Header, StudyYAML: c.Resolved, Trials: c.Trials, Events: c.Events, Hist: map[string]record.TrialHist{}}
	for _, t := range c.Trials {
		if t.Hist == "" {
			continue
		}
		h, err := readHist(path, t)
		if err != nil {
			return record.Run{}, nil, err
		}
		run.Hist[t.ID] = h
	}
	return run, c.Notes, nil
}

// ReadFindings reads findings.json; the error is fs.ErrNotExist if analysis
// has not written it yet.
func ReadFindings(path string) (record.Findings, error) {
	var f record.Findings
	name := filepath.Join(path, FileFindings)
	data, err := os.ReadFile(name)
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return f, fmt.Errorf("%s: %w", name, err)
	}
	return f, checkSchema(name, f.Schema)
}

func read(path string) (c Contents, whole int64, err error) {
	if c.Header, err = readHeader(path); err != nil {
		return c, 0, err
	}
	if c.Study, err = os.ReadFile(filepath.Join(path, FileStudy)); err != nil {
		return c, 0, damaged(path, err)
	}
	if c.Resolved, err = os.ReadFile(filepath.Join(path, FileResolved)); err != nil {
		return c, 0, damaged(path, err)
	}
	data, err := os.ReadFile(filepath.Join(path, FileTrials))
	if err != nil {
		return c, 0, damaged(path, err)
	}
	c.Trials, whole, c.Notes, err = parseTrials(filepath.Join(path, FileTrials), data)
	return c, whole, err
}

func damaged(path string, err error) error {
	return fmt.Errorf("run %s is damaged: %w", path, err)
}

func readHeader(path string) (record.Header, error) {
	var h record.Header
	name := filepath.Join(path, FileHeader)
	data, err := os.ReadFile(name)
	if err != nil {
		switch info, statErr := os.Stat(path); {
		case errors.Is(statErr, fs.ErrNotExist):
			return h, errs.WithHint(errs.Usage("there is no run at %s", path), "give the directory that `meshmark run` printed")
		case statErr == nil && !info.IsDir():
			return h, errs.WithHint(errs.Usage("%s is a file, not a run directory", path), "give the directory that `meshmark run` printed")
		case errors.Is(err, fs.ErrNotExist):
			return h, errs.WithHint(errs.Usage("%s is no run directory: it has no %s", path, FileHeader),
				"give the directory that `meshmark run` printed")
		}
		return h, damaged(path, err)
	}
	if err := json.Unmarshal(data, &h); err != nil {
		return h, damaged(path, fmt.Errorf("%s: %w", FileHeader, err))
	}
	return h, checkSchema(name, h.Schema)
}

func checkSchema(name string, schema int) error {
	switch {
	case schema > record.Schema:
		return errs.WithHint(errs.Usage("%s has schema %d, this meshmark reads up to %d", name, schema, record.Schema),
			"a newer meshmark wrote it: use that one")
	case schema < 1:
		return errs.Usage("%s has no schema version", name)
	}
	return nil
}

// parseTrials reads trials.jsonl. whole is where the last whole line ends;
// what follows it, or a last line that is no trial, is a write that did not
// finish, and becomes a note. Anything else unreadable is an error.
func parseTrials(name string, data []byte) (trials []record.Trial, whole int64, notes []string, err error) {
	seen := map[string]bool{}
	for number := 1; len(data) > 0; number++ {
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			notes = append(notes, fmt.Sprintf("%s: dropped an unfinished last line of %d bytes: that trial had not ended", name, len(data)))
			break
		}
		line := data[:end]
		data = data[end+1:]
		var t record.Trial
		if err := json.Unmarshal(line, &t); err != nil {
			if len(data) == 0 {
				notes = append(notes, fmt.Sprintf("%s: dropped the last line, which was not written whole: %v", name, err))
				break
			}
			return nil, 0, nil, fmt.Errorf("%s:%d: no trial: %w", name, number, err)
		}
		if err := checkSchema(fmt.Sprintf("%s:%d", name, number), t.Schema); err != nil {
			return nil, 0, nil, err
		}
		if t.ID == "" || seen[t.ID] {
			return nil, 0, nil, fmt.Errorf("%s:%d: trial %q is there twice, or has no name", name, number, t.ID)
		}
		seen[t.ID] = true
		trials = append(trials, t)
		whole += int64(end) + 1
	}
	return trials, whole, notes, nil
}

// Range of the histograms, in nanoseconds.
const (
	histLow     = 1
	histHigh    = int64(60 * time.Second)
	histDigits  = 3
	maxHistFile = 256 << 20
)

// Tags of the histograms in an interval log.
const (
	TagIntended = "intended"
	TagSend     = "send"
)

// readHist merges the intervals of a trial's log, each tag for itself.
func readHist(path string, t record.Trial) (record.TrialHist, error) {
	var out record.TrialHist
	if !filepath.IsLocal(filepath.FromSlash(t.Hist)) {
		return out, fmt.Errorf("trial %s: histograms %q lie outside the run directory", t.ID, t.Hist)
	}
	name := filepath.Join(path, filepath.FromSlash(t.Hist))
	info, err := os.Stat(name)
	if err != nil {
		return out, damaged(path, fmt.Errorf("trial %s: %w", t.ID, err))
	}
	if info.Size() > maxHistFile {
		return out, damaged(path, fmt.Errorf("trial %s: %s is %d bytes long", t.ID, t.Hist, info.Size()))
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return out, damaged(path, fmt.Errorf("trial %s: %w", t.ID, err))
	}
	if out, err = MergeHist(data); err != nil {
		return out, damaged(path, fmt.Errorf("trial %s: %s: %w", t.ID, t.Hist, err))
	}
	return out, nil
}

// MergeHist reads an HDR interval log and adds up its intervals, those with
// tag "intended" and those with tag "send". A tag without intervals gives
// an empty histogram.
func MergeHist(log []byte) (out record.TrialHist, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("no histogram log: %v", r)
		}
	}()
	out.Intended = hdrhistogram.New(histLow, histHigh, histDigits)
	out.Send = hdrhistogram.New(histLow, histHigh, histDigits)
	reader := hdrhistogram.NewHistogramLogReader(bytes.NewReader(log))
	intervals := countIntervals(log)
	for i := 0; ; i++ {
		h, err := reader.NextIntervalHistogram()
		if err != nil {
			return out, err
		}
		if h == nil && i < intervals {
			// The reader passes over lines that it cannot make sense of.
			return out, fmt.Errorf("%d of %d intervals cannot be read", intervals-i, intervals)
		}
		if h == nil {
			return out, nil
		}
		to := out.Intended
		switch h.Tag() {
		case TagIntended:
		case TagSend:
			to = out.Send
		default:
			return out, fmt.Errorf("unknown tag %q", h.Tag())
		}
		if dropped := to.Merge(h); dropped > 0 {
			return out, fmt.Errorf("%d values are above %v", dropped, time.Duration(histHigh))
		}
	}
}

// countIntervals counts the lines of an interval log that should hold a
// histogram: all but comments and the legend.
func countIntervals(log []byte) int {
	n := 0
	for line := range bytes.Lines(log) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' && line[0] != '"' {
			n++
		}
	}
	return n
}
