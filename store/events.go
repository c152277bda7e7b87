package store

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/record"
)

// Limits of events.jsonl. A reader holds all of it in memory, in about as
// many bytes as the file has, so the writer keeps it readable.
const (
	maxEventLine = 64 << 20
	maxEvents    = 1 << 30
)

// encodeEvents makes the lines of a trial's events.
func encodeEvents(trialID string, events []record.Event) ([]byte, error) {
	var b bytes.Buffer
	for _, e := range events {
		e.Trial = trialID
		if e.Schema == 0 {
			e.Schema = record.Schema
		}
		line, err := json.Marshal(e)
		if err != nil {
			return nil, fmt.Errorf("trial %s, change %d: %w", trialID, e.Change, err)
		}
		if len(line) >= maxEventLine {
			return nil, fmt.Errorf("trial %s, change %d: its record of %d bytes is longer than a reader takes, %d", trialID, e.Change, len(line), maxEventLine)
		}
		b.Write(line)
		b.WriteByte('\n')
	}
	return b.Bytes(), nil
}

// appendEvents makes lines of events durable and returns how long the file
// was before. d.mu is held.
func (d *Dir) appendEvents(lines []byte) (before int64, err error) {
	if d.events.file == nil {
		if err := d.openEvents(true); err != nil {
			return 0, err
		}
		if err := d.tree.sync(d.tree.File, "."); err != nil {
			return 0, err
		}
	}
	before = d.events.size
	if before+int64(len(lines)) > d.maxEvents() {
		return before, errs.WithHint(fmt.Errorf("%s would grow beyond %d bytes, which is all that a reader takes", FileEvents, d.maxEvents()),
			"split the study: fewer changes, proxies or blocks in a run")
	}
	return before, d.events.append(lines)
}

// openEvents opens events.jsonl for appending. Runs without events have none.
func (d *Dir) openEvents(create bool) error {
	file, err := d.tree.openAppend(FileEvents, create)
	if err != nil {
		return err
	}
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	d.events.file, d.events.size = file, size
	d.events.tree, d.events.name = d.tree, FileEvents
	return nil
}

// resumeEvents opens the events of an earlier run and removes what follows
// the first whole bytes: events of a trial that did not end.
func (d *Dir) resumeEvents(whole int64) error {
	err := d.openEvents(false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return explain(err, d.path)
	}
	return explain(d.events.cut(whole), d.path)
}

func (d *Dir) maxEvents() int64 {
	if d.eventsLimit > 0 {
		return d.eventsLimit
	}
	return maxEvents
}

// readEvents reads events.jsonl, a line at a time: the events of the trials
// that ended. What follows them is what a trial had written when it was cut
// short; it becomes a note, and whole is where it begins. A line that is no
// event is lost, if lost takes it, and so are those of a trial whose own line
// is lost. Anything else unreadable is an error. There need not be such a
// file.
func readEvents(path string, trials []record.Trial, lost *loss) (events []record.Event, whole int64, notes []string, err error) {
	name := filepath.Join(path, FileEvents)
	file, err := openFile(path, FileEvents)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil, nil
	}
	if err != nil {
		return nil, 0, nil, err
	}
	defer file.Close()
	ended := map[string]int{}
	for i := range trials {
		ended[trials[i].ID] = eventLines(&trials[i])
	}
	// One byte more than allowed tells a file that is too long.
	limited := &io.LimitedReader{R: file, N: maxEvents + 1}
	events, whole, notes, err = parseEvents(name, limited, ended, lost)
	if err == nil && limited.N == 0 {
		err = fmt.Errorf("%s is longer than %d bytes", name, maxEvents)
	}
	return events, whole, notes, err
}

// eventLines is how many events a trial's record counts.
func eventLines(t *record.Trial) int {
	if t.EventLines == 0 && t.Control != nil {
		return t.Control.Changes // of older records
	}
	return t.EventLines
}

// parseEvents is [readEvents] of a reader; ended has the trials that ended, and
// how many events each counts.
func parseEvents(name string, r io.Reader, ended map[string]int, lost *loss) (events []record.Event, whole int64, notes []string, err error) {
	seen := map[eventKey]bool{}
	reader := bufio.NewReaderSize(r, 1<<20)
	open, dropped := "", 0 // events at the end whose trial did not end
	last, gap := "", ""    // trial of the line before; why a change of the next line's may be lost
	lose := func(number int, err error) error {
		gap = fmt.Sprintf("line %d of %s cannot be read, and may have been a change of this trial", number, FileEvents)
		if err := lost.line(err); err != nil {
			return err
		}
		lost.of(last, gap)
		return nil
	}
	// Lines that are no events after all that the trials count are what was
	// being written when the power was lost: parts of a file that is not synced
	// may come to the disk in any order.
	var torn error
	tornAt, left, have := 0, 0, map[string]int{}
	for _, lines := range ended {
		left += lines
	}
	end := func(how string) ([]record.Event, int64, []string, error) {
		if dropped > 0 {
			notes = append(notes, fmt.Sprintf("%s: dropped %d changes of trial %s, which had not ended", name, dropped, open))
		}
		if torn != nil {
			how = fmt.Sprintf("what begins in line %d, which was not written whole: %v", tornAt, torn)
		}
		if how != "" {
			notes = append(notes, name+": dropped "+how)
		}
		return events, whole, notes, nil
	}
	size := int64(0) // of what was read
	for number := 1; ; number++ {
		line, err := readLine(reader)
		if errors.Is(err, io.EOF) && len(line) > 0 {
			return end(fmt.Sprintf("an unfinished last line of %d bytes: its trial had not ended", len(line)))
		}
		if errors.Is(err, io.EOF) {
			return end("")
		}
		if err != nil {
			return nil, 0, nil, fmt.Errorf("%s:%d: %w", name, number, err)
		}
		size += int64(len(line)) + 1
		var e record.Event
		if err := json.Unmarshal(line, &e); err != nil {
			if _, peek := reader.Peek(1); errors.Is(peek, io.EOF) {
				return end(fmt.Sprintf("the last line, which was not written whole: %v", err))
			}
			err := fmt.Errorf("%s:%d: no event: %w", name, number, err)
			switch {
			case left > 0:
				err = lose(number, err)
				whole = size
			case torn == nil:
				torn, tornAt, err = err, number, nil
			default:
				err = nil
			}
			if err != nil {
				return nil, 0, nil, err
			}
			continue
		}
		if err := checkEvent(fmt.Sprintf("%s:%d", name, number), e, seen); err != nil {
			return nil, 0, nil, err
		}
		count, done := ended[e.Trial]
		if done && torn != nil { // some trial's record does not count its events, or the line was more than these
			if err := lose(tornAt, torn); err != nil {
				return nil, 0, nil, err
			}
			torn = nil
		}
		if last = e.Trial; gap != "" {
			lost.of(last, gap)
			gap = ""
		}
		if lost != nil && lost.trial && dropped > 0 && e.Trial != open {
			lost.note(fmt.Sprintf("%s: dropped %d changes of trial %s, whose own line is lost", name, dropped, open))
			open, dropped = "", 0
		}
		switch {
		case !done && (dropped == 0 || e.Trial == open):
			open = e.Trial
			dropped++
			continue
		case dropped > 0:
			return nil, 0, nil, fmt.Errorf("%s:%d: changes of trial %s come after those of %s, which never ended", name, number, e.Trial, open)
		}
		events, whole = append(events, e), size
		if have[e.Trial]++; have[e.Trial] <= count {
			left--
		}
	}
}

// eventKey names an event of a run.
type eventKey struct {
	trial string
	index int
}

// checkEvent says what of an event, where one stands, cannot be.
func checkEvent(where string, e record.Event, seen map[eventKey]bool) error {
	if err := checkSchema(where, e.Schema); err != nil {
		return err
	}
	if err := checkSightings(e); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	key := eventKey{e.Trial, e.Change}
	if e.Trial == "" || seen[key] {
		return fmt.Errorf("%s: change %d of trial %q is there twice, or belongs to none", where, e.Change, e.Trial)
	}
	seen[key] = true
	return nil
}

// countEvents finds the trials that have fewer events than their records
// count: whole lines that are gone leave no other trace.
func (c *Contents) countEvents() {
	have := map[string]int{}
	for _, e := range c.Events {
		have[e.Trial]++
	}
	for _, t := range c.Trials {
		want := eventLines(&t)
		if have[t.ID] >= want || c.lost.doubt[t.ID] != "" {
			continue
		}
		why := fmt.Sprintf("%s has %d of its %d lines", FileEvents, have[t.ID], want)
		if c.lost.short == nil {
			c.lost.short = fmt.Errorf("trial %s: %s", t.ID, why)
		}
		c.lost.of(t.ID, why)
		c.lost.note(fmt.Sprintf("trial %s is not valid: %s", t.ID, why))
	}
}

// readLine reads up to a newline, which it leaves out. With io.EOF it returns
// what there was after the last one.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > maxEventLine {
			return nil, fmt.Errorf("a line of more than %d bytes", maxEventLine)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line[:len(line)-1], nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, err
		}
	}
}

// checkSightings says which columns of an event's sightings differ in length.
func checkSightings(e record.Event) error {
	n, s := len(e.Seen.Proxy), e.Seen
	if len(s.ReceivedUS) != n || len(s.AckedUS) != n || (s.AppliedUS != nil && len(s.AppliedUS) != n) {
		return fmt.Errorf("change %d of trial %s: %d proxies, but %d times received, %d acknowledged, %d applied",
			e.Change, e.Trial, n, len(s.ReceivedUS), len(s.AckedUS), len(s.AppliedUS))
	}
	return nil
}
