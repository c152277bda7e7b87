package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Contents has a run's records without its histograms; [Read] also omits the events.
type Contents struct {
	Header   record.Header
	Study    []byte // study.yaml as given
	Resolved []byte // resolved.yaml
	Trials   []record.Trial
	Events   []record.Event // of the trials, in the order they were made
	// Notes say what was dropped, such as an incomplete last line.
	Notes []string

	lost loss
}

// Resume opens the directory of an earlier run to continue it. It fails unless resolved
// and seed match that run's (nil and 0 match any), because trials of different studies
// must not be mixed in one run. An incomplete last line is removed from the file. Resume
// rejects a run with other unreadable lines, or without some events of a trial that ended.
func Resume(path string, resolved []byte, seed uint64) (*Dir, Contents, error) {
	return resumeWatched(path, resolved, seed, nil)
}

func resumeWatched(path string, resolved []byte, seed uint64, watch func(diskOp)) (dir *Dir, c Contents, err error) {
	if _, err := ReadHeader(path); err != nil {
		return nil, Contents{}, err
	}
	lock, err := lockDir(path)
	if err != nil {
		return nil, Contents{}, err
	}
	d := &Dir{path: path, lock: lock, tree: tree{lock, watch}, done: map[string]bool{}}
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
	if first := c.lost.first; first != nil {
		return nil, c, errs.WithHint(damaged(path, first),
			"`meshtrial report` reads the rest; to resume the run, delete that line, and with a trial's line those of its changes in %s", FileEvents)
	}
	if short := c.lost.short; short != nil {
		return nil, c, errs.WithHint(damaged(path, short),
			"`meshtrial report` reads the rest; to repeat that trial, delete its line in %s and what is left of it in %s", FileTrials, FileEvents)
	}
	if resolved != nil && !bytes.Equal(c.Resolved, resolved) {
		return nil, c, errs.WithHint(errs.Usage("run %s was made from a different study or other --set flags", path),
			"omit the study to resume the run's own, %s", filepath.Join(path, FileResolved))
	}
	if seed != 0 && seed != c.Header.Seed {
		return nil, c, errs.WithHint(errs.Usage("run %s has seed %d, not %d", path, c.Header.Seed, seed),
			"omit the seed to resume with the run's own")
	}
	if err := d.need(DirHist); err != nil {
		return nil, c, err
	}
	if err := d.openAppends(); err != nil {
		return nil, c, err
	}
	if err := d.resumeEvents(wholeEvents); err != nil {
		return nil, c, err
	}
	if err := d.trials.cut(whole); err != nil {
		return nil, c, explain(err, path)
	}
	d.tree.removeTemps()
	for _, t := range c.Trials {
		d.done[t.ID] = true
	}
	return d, c, nil
}

// Read reads a run's records without its histograms and events.
func Read(path string) (Contents, error) {
	c, _, err := read(path)
	c.Notes = append(c.Notes, c.lost.allNotes()...)
	return c, err
}

// readEvents fills in the events and returns the length of the part of their file that
// belongs to ended trials. It must be called after the trials were read: a run that is
// concurrently written then has the events of every trial it lists.
func (c *Contents) readEvents(path string) (whole int64, err error) {
	events, whole, notes, err := readEvents(path, c.Trials, &c.lost)
	if err != nil {
		return 0, damaged(path, err)
	}
	c.Events, c.Notes = events, append(c.Notes, notes...)
	c.countEvents()
	return whole, nil
}

// Load reads a complete run as input of analysis. The notes say what was dropped. A trial
// with unreadable histograms or changes is included but invalid; one whose own line is
// unreadable is omitted. Load changes nothing, so it can read a run that is being written.
func Load(ctx context.Context, path string) (run record.Run, notes []string, err error) {
	c, _, err := read(path)
	if err != nil {
		return record.Run{}, nil, err
	}
	if ctx.Err() != nil {
		return record.Run{}, nil, ctx.Err()
	}
	if _, err := c.readEvents(path); err != nil {
		return record.Run{}, nil, err
	}
	run = record.Run{Header: c.Header, StudyYAML: c.Resolved, Trials: c.Trials, Events: c.Events, Hist: map[string]record.TrialHist{},
		Requests: func(trial string) (io.ReadCloser, error) { return OpenRequests(path, trial) },
		Evidence: func(trial string) ([]byte, error) { return ReadEvidence(path, trial) },
		Profile:  func(file string) (io.ReadCloser, error) { return OpenProfile(path, file) }}
	for _, t := range c.Trials {
		if ctx.Err() != nil {
			return record.Run{}, nil, ctx.Err()
		}
		if t.Hist == "" {
			continue
		}
		h, err := readHist(path, t)
		if err != nil {
			c.lost.of(t.ID, fmt.Sprintf("its histograms in %s are unreadable: %v", t.Hist, err))
			c.lost.note(fmt.Sprintf("trial %s is invalid, its histograms are unreadable: %v", t.ID, err))
			continue
		}
		run.Hist[t.ID] = h
	}
	c.lost.judge(run.Trials)
	return run, append(c.Notes, c.lost.allNotes()...), nil
}

func read(path string) (c Contents, whole int64, err error) {
	if c.Header, err = ReadHeader(path); err != nil {
		return c, 0, err
	}
	if c.Study, err = readFile(path, FileStudy, maxFile); err != nil {
		return c, 0, damaged(path, err)
	}
	if c.Resolved, err = readFile(path, FileResolved, maxFile); err != nil {
		return c, 0, damaged(path, err)
	}
	data, err := readFile(path, FileTrials, maxTrials)
	if err != nil {
		return c, 0, damaged(path, err)
	}
	name := filepath.Join(path, FileTrials)
	c.Trials, whole, c.Notes, err = parseTrials(name, data, &c.lost)
	c.Trials = slices.DeleteFunc(c.Trials, func(t record.Trial) bool {
		field := study.Kind(c.Header.Kind).Lacks(&t)
		if field != "" {
			_ = c.lost.line(fmt.Errorf("%s: trial %s has no field %s", name, t.ID, field))
			c.lost.trial = true
		}
		return field != ""
	})
	if err == nil && len(c.Trials) == 0 {
		err = c.lost.first // the file does not contain trials
	}
	if err != nil {
		return c, 0, damaged(path, err)
	}
	return c, whole, nil
}

// ReadHeader reads only a run's header.
func ReadHeader(path string) (record.Header, error) {
	var h record.Header
	name := filepath.Join(path, FileHeader)
	data, err := readFile(path, FileHeader, maxFile)
	if err != nil {
		switch info, statErr := os.Stat(path); {
		case errors.Is(statErr, fs.ErrNotExist):
			return h, errs.WithHint(errs.Usage("there is no run at %s", path), "name the directory that `meshtrial run` printed")
		case statErr == nil && !info.IsDir():
			return h, errs.WithHint(errs.Usage("%s is a file, not a run directory", path), "name the directory that `meshtrial run` printed")
		case errors.Is(err, fs.ErrNotExist):
			return h, errs.WithHint(errs.Usage("%s is not a run directory: it has no %s", path, FileHeader),
				"name the directory that `meshtrial run` printed")
		}
		return h, damaged(path, err)
	}
	if err := json.Unmarshal(data, &h); err != nil {
		return h, damaged(path, fmt.Errorf("%s: %w", FileHeader, err))
	}
	return h, checkSchema(name, h.Schema, h.Meshtrial)
}

// checkSchema rejects documents of other versions, which have another meaning. writer is
// the version of the program that wrote them; "" if unknown.
func checkSchema(name string, schema int, writer string) error {
	if schema == record.Schema {
		return nil
	}
	if schema < 1 {
		return errs.WithHint(errs.Usage("%s has no schema version", name), "meshtrial did not write this file: restore it from a copy")
	}
	return errs.WithHint(errs.Usage("%s has schema %d, this meshtrial reads %d", name, schema, record.Schema),
		"read it with the version that wrote it (%s), or run the study again", cmp.Or(writer, FileHeader+" names it"))
}

// parseTrials parses trials.jsonl. whole is the end of the last complete line. What
// follows it, or an invalid last line, is an unfinished write and becomes a note. If lost
// is not nil, it records invalid lines before that. Any other unreadable content is an
// error.
func parseTrials(name string, data []byte, lost *loss) (trials []record.Trial, whole int64, notes []string, err error) {
	seen := map[string]bool{}
	for number := 1; len(data) > 0; number++ {
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			notes = append(notes, fmt.Sprintf("%s: dropped an incomplete last line of %d bytes: that trial had not ended", name, len(data)))
			break
		}
		line := data[:end]
		data = data[end+1:]
		var t record.Trial
		if err := json.Unmarshal(line, &t); err != nil {
			if len(data) == 0 {
				notes = append(notes, fmt.Sprintf("%s: dropped the last line, which is incomplete: %v", name, err))
				break
			}
			if err := lost.line(fmt.Errorf("%s:%d: not a trial: %w", name, number, err)); err != nil {
				return nil, 0, nil, err
			}
			lost.trial = true
			whole += int64(end) + 1
			continue
		}
		if err := checkSchema(fmt.Sprintf("%s:%d", name, number), t.Schema, ""); err != nil {
			return nil, 0, nil, err
		}
		if t.ID == "" || seen[t.ID] {
			return nil, 0, nil, errs.WithHint(fmt.Errorf("%s:%d: trial %q is a duplicate or has no name", name, number, t.ID),
				"delete that line")
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

// readHist merges the intervals of a trial's log, separately by tag.
func readHist(path string, t record.Trial) (record.TrialHist, error) {
	var out record.TrialHist
	if !filepath.IsLocal(filepath.FromSlash(t.Hist)) {
		return out, fmt.Errorf("trial %s: histograms %q lie outside the run directory", t.ID, t.Hist)
	}
	data, err := readFile(path, t.Hist, maxHistFile)
	if err != nil {
		return out, err
	}
	if out, err = MergeHist(data); err != nil {
		return out, fmt.Errorf("%s: %w", t.Hist, err)
	}
	return out, nil
}

// MergeHist reads an HDR interval log and sums its intervals, separately for the tags
// "intended" and "send". A tag without intervals yields an empty histogram.
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
			// The reader skips lines that it cannot parse.
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

// countIntervals counts the lines of an interval log that should contain a histogram: all
// except comments and the legend.
func countIntervals(log []byte) int {
	n := 0
	for line := range bytes.Lines(log) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' && line[0] != '"' {
			n++
		}
	}
	return n
}
