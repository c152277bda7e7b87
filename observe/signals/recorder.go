package signals

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// Sample is one value of one series at the time it is appended with.
type Sample struct {
	Name   string
	Labels map[string]string
	Value  float64 // NaN for a native histogram
	// Histogram is what a server answers with where the series is a native
	// histogram; nil for a number. A [Recorder] keeps numbers only.
	Histogram *Histogram
}

// Recorder writes metrics into a folder, such as the folder series of a run
// directory. What was appended survives the death of the process, and
// [OpenRecorder] goes on with the same folder. A Recorder may be used from
// several goroutines.
type Recorder struct {
	dir     string
	memory  *memory
	journal *journal

	mu      sync.Mutex
	targets map[string]*target
	ended   error // why nothing can be recorded any more
}

var errClosed = errors.New("already closed")

// target is what is known of one source of pages.
type target struct {
	base   labels.Labels // what every series of it carries besides its own
	last   int64         // time of the page before, ms
	pages  int
	series map[string]*series // by their spelling on the page
}

type series struct {
	labels labels.Labels
	stored *stored // nil before its first sample
	page   int     // number of the last page that had it
	stale  bool
}

// OpenRecorder opens a folder for writing and makes it if need be. One
// process at a time can have it open.
func OpenRecorder(dir string) (*Recorder, error) {
	r := &Recorder{dir: dir, memory: newMemory(), targets: map[string]*target{}}
	var err error
	if r.journal, err = openJournal(dir, r.memory); err != nil {
		return nil, errs.WithHint(fmt.Errorf("series %s: %w", dir, err), "is another process writing to this folder, or is its disk full?")
	}
	return r, nil
}

// Append records samples of one moment. Times of one series must rise.
func (r *Recorder) Append(at time.Time, samples []Sample) error {
	return r.write(at, func(add *batch, ms int64) error { return add.samples(ms, samples) })
}

// AppendPage records a metrics page (Prometheus' text format) that was read
// at a moment from the target that the labels identify, which its series
// carry beside their own (a label of the page that has the same name gives
// way). A page that is not in the format, or whose time is not after the page
// before, is an error and leaves nothing behind.
//
// A time that the page itself gives a sample counts instead, as with
// Prometheus: a kubelet says when it looked at a container. It must be in the
// last five minutes; the same sample seen again is recorded once.
//
// A counter that the target had not shown so far but shows now was zero when
// the page before was read, and is recorded so: istiod's counters appear with
// their first count, which would otherwise be lost to rate and increase. A
// series that is no longer on the page ends there (a staleness marker).
func (r *Recorder) AppendPage(at time.Time, page []byte, targetLabels map[string]string) error {
	t := r.target(targetLabels)
	var added []string
	return r.write(at, func(add *batch, ms int64) error {
		if t.pages > 0 && ms <= t.last {
			return fmt.Errorf("a page of %s at %d ms follows one at %d ms", t.base, ms, t.last)
		}
		number := t.pages + 1
		err := walkPage(page, func(text []byte, metric func() labels.Labels, own *int64, v float64, counter bool) error {
			s, known := t.series[string(text)]
			if !known {
				s = &series{labels: t.label(metric())}
				t.series[string(text)] = s
				added = append(added, string(text))
			}
			if own != nil && *own <= ms && ms-*own < lookback.Milliseconds() {
				s.page, s.stale = number, false
				stored, err := add.sample(s.stored, s.labels, *own, v)
				if err == nil {
					s.stored = stored
				} else if !seenBefore(err) {
					return fmt.Errorf("%s: %w", s.labels, err)
				}
				return nil
			}
			if !known && counter && t.pages > 0 && v > 0 {
				if _, err := add.sample(nil, s.labels, t.last, 0); err != nil && !seenBefore(err) {
					return fmt.Errorf("%s: %w", s.labels, err)
				}
			}
			stored, err := add.sample(s.stored, s.labels, ms, v)
			if err != nil {
				return fmt.Errorf("%s: %w", s.labels, err)
			}
			s.stored, s.page, s.stale = stored, number, false
			return nil
		})
		if err != nil {
			return err
		}
		if err := t.end(add, ms, number); err != nil {
			return err
		}
		t.pages, t.last = number, ms
		return nil
	}, func() {
		t.pages++ // no series is on a page that does not count
		for _, text := range added {
			delete(t.series, text)
		}
	})
}

// Gone records that a target can no longer be read: its series end.
func (r *Recorder) Gone(at time.Time, targetLabels map[string]string) error {
	t := r.target(targetLabels)
	return r.write(at, func(add *batch, ms int64) error {
		t.pages++
		t.last = max(ms, t.last+1)
		return t.end(add, t.last, t.pages)
	})
}

// endOthers ends the series of targets that an earlier scraper read, of the
// same jobs as those that there are now: an istiod that was replaced meanwhile.
func (r *Recorder) endOthers(at time.Time, now []Target) error {
	jobs, still := map[string]bool{}, map[string]bool{}
	for _, t := range now {
		jobs[t.Labels["job"]], still[key(t.Labels)] = true, true
	}
	var gone []map[string]string
	r.mu.Lock()
	for name, t := range r.targets {
		if jobs[t.base.Get("job")] && !still[name] {
			gone = append(gone, t.base.Map())
		}
	}
	r.mu.Unlock()
	for _, labels := range gone {
		if err := r.Gone(at, labels); err != nil {
			return err
		}
	}
	return nil
}

// end ends the series of a target that its newest page had no more.
func (t *target) end(add *batch, ms int64, page int) error {
	for _, s := range t.series {
		if s.page == page || s.stale {
			continue
		}
		if _, err := add.sample(s.stored, s.labels, ms, math.Float64frombits(value.StaleNaN)); err != nil && !seenBefore(err) {
			return fmt.Errorf("%s: %w", s.labels, err)
		}
		s.stale = true
	}
	return nil
}

// seenBefore tells that the series has a sample of this time, or a later one.
func seenBefore(err error) bool {
	return errors.Is(err, storage.ErrOutOfOrderSample) || errors.Is(err, storage.ErrDuplicateSampleForTimestamp)
}

// label adds the target's labels to a series' own.
func (t *target) label(own labels.Labels) labels.Labels {
	b := labels.NewBuilder(own)
	t.base.Range(func(l labels.Label) { b.Set(l.Name, l.Value) })
	return b.Labels()
}

// target finds what is known of a target.
func (r *Recorder) target(targetLabels map[string]string) *target {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, ok := r.targets[key(targetLabels)]
	if !ok {
		t = &target{base: labels.FromMap(targetLabels), series: map[string]*series{}}
		r.targets[key(targetLabels)] = t
	}
	return t
}

func key(targetLabels map[string]string) string { return labels.FromMap(targetLabels).String() }

// write runs one transaction: all of it is recorded, or nothing. Where it
// fails, onFailure is called too.
func (r *Recorder) write(at time.Time, fill func(add *batch, ms int64) error, onFailure ...func()) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.ended
	if err == nil {
		b := newBatch(r.memory)
		if err = fill(b, at.UnixMilli()); err == nil {
			err = r.commit(b)
		}
	}
	if err != nil {
		for _, undo := range onFailure {
			undo()
		}
		return fmt.Errorf("series %s: %w", r.dir, err)
	}
	return nil
}

// commit writes a batch to the disk and then to memory. After half a record
// no other can follow, so the recording ends where the disk fails.
func (r *Recorder) commit(b *batch) error {
	defined, samples := b.records()
	if err := r.journal.write(defined, samples); err != nil {
		r.ended = err
		return err
	}
	for _, s := range b.fresh {
		r.memory.define(s)
	}
	return r.memory.add(samples)
}

// Close lets go of the folder. Closing again does nothing.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if errors.Is(r.ended, errClosed) {
		return nil
	}
	r.ended = errClosed
	if err := r.journal.close(); err != nil {
		return fmt.Errorf("series %s: %w", r.dir, err)
	}
	return nil
}

// Source answers expressions from what has been recorded so far.
func (r *Recorder) Source() *Series {
	return &Series{memory: r.memory, engine: newEngine(), name: "recording " + strings.TrimSuffix(r.dir, "/"), live: true}
}
