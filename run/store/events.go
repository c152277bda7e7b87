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

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
)

// Limits of events.jsonl. A reader holds all of it in memory, in about as many bytes as
// the file has, so the writer must keep it readable.
const (
	maxEventLine = 64 << 20
	maxEvents    = 1 << 30
)

// encodeEvents returns the lines of a trial's events.
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
			return nil, fmt.Errorf("trial %s, change %d: its record of %d bytes exceeds the limit of %d", trialID, e.Change, len(line), maxEventLine)
		}
		b.Write(line)
		b.WriteByte('\n')
	}
	return b.Bytes(), nil
}

// appendEvents makes lines of events durable and returns the previous length of the
// file. d.mu must be held.
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
		return before, errs.WithHint(fmt.Errorf("%s would grow beyond the limit of %d bytes", FileEvents, d.maxEvents()),
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

// resumeEvents opens the events of an earlier run and truncates the file to its first
// whole bytes, removing events of a trial that did not end.
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

// readEvents reads events.jsonl line by line and returns the events of the trials that
// ended. Whatever follows them was written by an interrupted trial; it becomes a note,
// and whole is where it starts. If lost is not nil, it records invalid lines and events
// of trials whose own line is lost. Any other unreadable content is an error. The file
// need not exist.
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
		ended[trials[i].ID] = trials[i].EventLines
	}
	// One byte above the limit reveals a file that is too long.
	limited := &io.LimitedReader{R: file, N: maxEvents + 1}
	events, whole, notes, err = parseEvents(name, limited, ended, lost)
	if err == nil && limited.N == 0 {
		err = fmt.Errorf("%s is longer than %d bytes", name, maxEvents)
	}
	return events, whole, notes, err
}

// eventParser is the state of [parseEvents].
type eventParser struct {
	name  string
	ended map[string]int
	lost  *loss

	events []record.Event
	whole  int64
	notes  []string

	seen      map[eventKey]bool
	have      map[string]int // events by trial
	left      int            // events that trials count and that have not been read yet
	open      string         // the trial at the end of the file that did not end
	dropped   int            // number of its events
	last, gap string         // trial of the previous line; why a change on the next line may be lost
}

// parseEvents is [readEvents] for a reader. ended has the trials that ended, with their
// numbers of events.
func parseEvents(name string, r io.Reader, ended map[string]int, lost *loss) (events []record.Event, whole int64, notes []string, err error) {
	p := eventParser{name: name, ended: ended, lost: lost, seen: map[eventKey]bool{}, have: map[string]int{}}
	for _, lines := range ended {
		p.left += lines
	}
	reader := bufio.NewReaderSize(r, 1<<20)
	size := int64(0) // of the part read so far
	for number := 1; ; number++ {
		line, err := readLine(reader)
		switch {
		case errors.Is(err, io.EOF) && len(line) > 0:
			return p.end(fmt.Sprintf("an incomplete last line of %d bytes: its trial had not ended", len(line)))
		case errors.Is(err, io.EOF):
			return p.end("")
		case err != nil:
			return nil, 0, nil, fmt.Errorf("%s:%d: %w", name, number, err)
		}
		size += int64(len(line)) + 1
		var e record.Event
		bad := json.Unmarshal(line, &e)
		_, peek := reader.Peek(1)
		switch {
		case bad == nil:
			err = p.take(number, e, size)
		case p.left == 0 || errors.Is(peek, io.EOF):
			// It was being written when power was lost: parts of an unsynced file may
			// reach the disk in any order.
			return p.end(fmt.Sprintf("everything from line %d on, which is incomplete: %v", number, bad))
		default:
			p.whole = size
			err = p.lose(number, fmt.Errorf("%s:%d: not an event: %w", name, number, bad))
		}
		if err != nil {
			return nil, 0, nil, err
		}
	}
}

// end returns the result, with a note about what is dropped at the end of the file.
func (p *eventParser) end(how string) ([]record.Event, int64, []string, error) {
	if p.dropped > 0 {
		p.notes = append(p.notes, fmt.Sprintf("%s: dropped %s of trial %s, which had not ended", p.name, words.Plural(p.dropped, "change"), p.open))
	}
	if how != "" {
		p.notes = append(p.notes, p.name+": dropped "+how)
	}
	return p.events, p.whole, p.notes, nil
}

// lose records a lost line, whose event may have belonged to the previous or the next
// trial.
func (p *eventParser) lose(number int, err error) error {
	if err := p.lost.line(err); err != nil {
		return err
	}
	p.gap = fmt.Sprintf("line %d of %s is unreadable, and may have been a change of this trial", number, FileEvents)
	p.lost.of(p.last, p.gap)
	return nil
}

// take adds an event; size is the length of the file up to and including it.
func (p *eventParser) take(number int, e record.Event, size int64) error {
	where := fmt.Sprintf("%s:%d", p.name, number)
	if err := checkEvent(where, e, p.seen); err != nil {
		return err
	}
	count, done := p.ended[e.Trial]
	if p.last = e.Trial; p.gap != "" {
		p.lost.of(p.last, p.gap)
		p.gap = ""
	}
	if p.lost != nil && p.lost.trial && p.dropped > 0 && e.Trial != p.open {
		p.lost.note(fmt.Sprintf("%s: dropped %s of trial %s, whose own line is lost", p.name, words.Plural(p.dropped, "change"), p.open))
		p.open, p.dropped = "", 0
	}
	switch {
	case !done && (p.dropped == 0 || e.Trial == p.open):
		p.open = e.Trial
		p.dropped++
		return nil
	case p.dropped > 0:
		return fmt.Errorf("%s: changes of trial %s come after those of %s, which never ended", where, e.Trial, p.open)
	}
	p.events, p.whole = append(p.events, e), size
	if p.have[e.Trial]++; p.have[e.Trial] <= count {
		p.left--
	}
	return nil
}

// eventKey identifies an event of a run.
type eventKey struct {
	trial string
	index int
}

// checkEvent returns an error if an event, found at where, is impossible.
func checkEvent(where string, e record.Event, seen map[eventKey]bool) error {
	if err := checkSchema(where, e.Schema, ""); err != nil {
		return err
	}
	if err := checkSightings(e); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	key := eventKey{e.Trial, e.Change}
	if e.Trial == "" || seen[key] {
		return fmt.Errorf("%s: change %d of trial %q is a duplicate, or belongs to no trial", where, e.Change, e.Trial)
	}
	seen[key] = true
	return nil
}

// countEvents finds the trials with fewer events than their records count, because
// missing whole lines leave no other trace.
func (c *Contents) countEvents() {
	have := map[string]int{}
	for _, e := range c.Events {
		have[e.Trial]++
	}
	for _, t := range c.Trials {
		want := t.EventLines
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

// readLine reads up to a newline, which it strips. With io.EOF it returns the rest
// after the last one.
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

// checkSightings returns an error if columns of an event's sightings differ in length.
func checkSightings(e record.Event) error {
	n, s := len(e.Seen.Proxy), e.Seen
	if len(s.ReceivedUS) != n || len(s.AckedUS) != n || (s.AppliedUS != nil && len(s.AppliedUS) != n) {
		return fmt.Errorf("change %d of trial %s: %d proxies, but %d times received, %d acknowledged, %d applied",
			e.Change, e.Trial, n, len(s.ReceivedUS), len(s.AckedUS), len(s.AppliedUS))
	}
	return nil
}
