package signals

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/record"
	"github.com/prometheus/prometheus/tsdb/wlog"
	"github.com/prometheus/prometheus/util/compression"
	"golang.org/x/sys/unix"
)

// dirJournal is the folder in which Prometheus, too, keeps its journal, so
// that its own tools can read a recording.
const dirJournal = "wal"

const (
	// segmentBytes is the size of a file of the journal.
	segmentBytes = 4 << 20
	// pageBytes is how much of the journal is written at once: a record that
	// was cut off lies in the last page.
	pageBytes = 32 << 10
)

// journal keeps a recording on disk, as a journal of Prometheus' database:
// records with check sums, packed with zstd. A record is on its way to the
// disk when write returns, so that it survives the process.
type journal struct {
	lock *os.File
	log  *wlog.WL
}

// openJournal opens a folder's journal for writing, makes it if need be, and
// reads what it holds into m. Half a record at its end, which a process that
// died left, is taken away.
func openJournal(dir string, m *memory) (*journal, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	lock, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	j := &journal{lock: lock}
	fail := func(err error) (*journal, error) { return nil, errors.Join(err, j.close()) }
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fail(fmt.Errorf("locking the folder: %w", err))
	}
	torn, err := readJournal(dir, m)
	if err != nil {
		return fail(err)
	}
	if j.log, err = wlog.NewSize(nil, nil, filepath.Join(dir, dirJournal), segmentBytes, compression.Zstd); err != nil {
		return fail(err)
	}
	if torn != nil {
		if err := j.log.Repair(torn); err != nil {
			return fail(err)
		}
	}
	return j, nil
}

// readJournal reads what a folder's journal holds into m. torn tells that it
// ends in half a record: its process died, or is writing.
func readJournal(dir string, m *memory) (torn *wlog.CorruptionErr, err error) {
	dir = filepath.Join(dir, dirJournal)
	_, last, err := wlog.Segments(dir)
	if err != nil || last < 0 {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return nil, err
	}
	segments, err := wlog.NewSegmentsReader(dir)
	if err != nil {
		return nil, err
	}
	defer segments.Close()
	records := wlog.NewReader(segments)
	decoder := record.NewDecoder(labels.NewSymbolTable(), nil)
	byRef := map[int]*stored{}
	for records.Next() {
		if err := decode(&decoder, records.Record(), m, byRef); err != nil {
			return nil, fmt.Errorf("segment %d at %d bytes: %w", records.Segment(), records.Offset(), err)
		}
	}
	if err := records.Err(); !errors.As(err, &torn) || torn.Segment < last {
		return nil, err
	}
	end, err := os.Stat(wlog.SegmentName(dir, last))
	if err != nil || end.Size()-torn.Offset > pageBytes {
		return nil, errors.Join(torn, err) // damage, not an end
	}
	return torn, nil
}

// decode adds what a record holds to m. References are the writer's.
func decode(d *record.Decoder, rec []byte, m *memory, byRef map[int]*stored) error {
	switch d.Type(rec) {
	case record.Series:
		defined, err := d.Series(rec, nil)
		if err != nil {
			return err
		}
		for _, s := range defined {
			known := m.find(s.Labels)
			if known == nil {
				known = &stored{labels: s.Labels}
				m.define(known)
			}
			byRef[int(s.Ref)] = known
		}
	case record.Samples:
		samples, err := d.Samples(rec, nil)
		if err != nil {
			return err
		}
		for i, s := range samples {
			known := byRef[int(s.Ref)]
			if known == nil {
				return fmt.Errorf("a sample of series %d, which was not defined", s.Ref)
			}
			samples[i].Ref = known.ref
		}
		return m.add(samples)
	}
	return nil // Prometheus knows others, which a recording has no use for
}

// write appends series that are new and then samples.
func (j *journal) write(series []record.RefSeries, samples []record.RefSample) error {
	var encoder record.Encoder
	var records [][]byte
	if len(series) > 0 {
		records = append(records, encoder.Series(series, nil))
	}
	if len(samples) > 0 {
		records = append(records, encoder.Samples(samples, nil))
	}
	return j.log.Log(records...)
}

// close writes the journal's end and lets go of the folder.
func (j *journal) close() error {
	var err error
	if j.log != nil {
		err = j.log.Close()
	}
	return errors.Join(err, j.lock.Close())
}
