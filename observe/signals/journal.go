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

// dirJournal is the directory in which Prometheus also keeps its journal, so
// that its own tools can read a recording.
const dirJournal = "wal"

const (
	// segmentBytes is the size of a journal file.
	segmentBytes = 4 << 20
	// pageBytes is the write size of the journal: a truncated record lies in
	// the last page.
	pageBytes = 32 << 10
)

// journal stores a recording on disk in the journal format of Prometheus's
// database: records with checksums, compressed with zstd. When write returns, a
// record has been passed to the kernel, so it survives the process.
type journal struct {
	lock *os.File
	log  *wlog.WL
}

// openJournal opens a directory's journal for writing, creating it if
// necessary, and reads its contents into m. It removes a partial record at the
// end, left by a process that died.
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

// readJournal reads the contents of a directory's journal into m. torn is set
// if it ends in a partial record: its process died, or is still writing.
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
		return nil, errors.Join(torn, err) // corruption rather than an end
	}
	return torn, nil
}

// decode adds the contents of a record to m. References are the writer's.
func decode(d *record.Decoder, rec []byte, m *memory, byRef map[int]*stored) error {
	switch d.Type(rec) {
	case record.Series:
		defined, err := d.Series(rec, nil)
		if err != nil {
			return err
		}
		for _, s := range defined {
			known := m.byLabels[s.Labels]
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
	return nil // recordings do not use other record types
}

// write appends new series, then samples.
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

// close flushes the journal and releases the directory.
func (j *journal) close() error {
	var err error
	if j.log != nil {
		err = j.log.Close()
	}
	return errors.Join(err, j.lock.Close())
}
