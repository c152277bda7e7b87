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

// Sample is one value of one series at the time of its append.
type Sample struct {
	Name   string
	Labels map[string]string
	Value  float64
}

// Recorder writes metrics into a directory, such as the directory series of a
// run. Appended data survives the death of the process, and [OpenRecorder]
// resumes with the same directory. A Recorder is safe for concurrent use.
type Recorder struct {
	dir     string
	memory  *memory
	journal *journal

	mu      sync.Mutex
	targets map[string]*target
	ended   error // why nothing can be recorded any more
}

var errClosed = errors.New("already closed")

// target is the state of one source of pages.
type target struct {
	base   labels.Labels // labels that all of its series carry in addition to their own
	last   int64         // time of the previous page, in ms
	pages  int
	series map[string]*series // by their text on the page
}

type series struct {
	labels labels.Labels
	stored *stored // nil before its first sample
	page   int     // number of the last page that contained it
	stale  bool
}

// OpenRecorder opens a directory for writing, creating it if necessary. Only
// one process at a time can open it.
func OpenRecorder(dir string) (*Recorder, error) {
	r := &Recorder{dir: dir, memory: newMemory(), targets: map[string]*target{}}
	var err error
	if r.journal, err = openJournal(dir, r.memory); err != nil {
		return nil, errs.WithHint(fmt.Errorf("series %s: %w", dir, err), "is another process writing to this folder, or is its disk full?")
	}
	return r, nil
}

// Append records samples of one moment. The times of each series must be
// ascending.
func (r *Recorder) Append(at time.Time, samples []Sample) error {
	return r.write(at, func(add *batch, ms int64) error { return add.samples(ms, samples) })
}

// AppendPage records a metrics page (Prometheus text format) that was read at a
// moment from the target identified by the labels. Its series carry these
// labels in addition to their own, and they override labels of the same name on
// the page. A page in another format, or not later than the previous page, is
// an error and leaves no trace.
//
// A timestamp on the page takes precedence, as with Prometheus: a kubelet
// reports when it sampled a container. It must be within the last five minutes;
// a repeated sample is recorded once.
//
// A counter that appears for the first time is also recorded as zero at the
// time of the previous page: istiod's counters appear with their first count,
// which rate and increase would otherwise miss. A series that is no longer on
// the page ends there (a staleness marker).
func (r *Recorder) AppendPage(at time.Time, page []byte, targetLabels map[string]string) error {
	t := r.target(targetLabels)
	return r.write(at, func(add *batch, ms int64) (err error) {
		var added []string
		defer func() {
			if err != nil {
				t.pages++ // a rejected page contains no series
				for _, text := range added {
					delete(t.series, text)
				}
			}
		}()
		if t.pages > 0 && ms <= t.last {
			return fmt.Errorf("a page of %s at %d ms follows one at %d ms", t.base, ms, t.last)
		}
		number := t.pages + 1
		err = walkPage(page, func(text []byte, metric func() labels.Labels, own *int64, v float64, counter bool) error {
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

// endOthers ends the series of targets that an earlier scraper read in the same
// jobs as the current targets, such as a replaced istiod.
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

// end ends the series of a target that are missing on its newest page.
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

// seenBefore reports whether the series has a sample at or after this time.
func seenBefore(err error) bool {
	return errors.Is(err, storage.ErrOutOfOrderSample) || errors.Is(err, storage.ErrDuplicateSampleForTimestamp)
}

// label adds the target's labels to a series' own.
func (t *target) label(own labels.Labels) labels.Labels {
	b := labels.NewBuilder(own)
	t.base.Range(func(l labels.Label) { b.Set(l.Name, l.Value) })
	return b.Labels()
}

// target returns the state of a target.
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

// write runs one transaction: all of it is recorded, or nothing.
func (r *Recorder) write(at time.Time, fill func(add *batch, ms int64) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.ended
	b := newBatch(r.memory)
	if err == nil {
		err = fill(b, at.UnixMilli())
	}
	if err == nil {
		err = r.commit(b)
	}
	if err != nil {
		return fmt.Errorf("series %s: %w", r.dir, err)
	}
	return nil
}

// commit writes a batch to disk and then to memory. No record can follow a
// partial one, so the recording ends when the disk fails.
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

// Close releases the directory. Closing again has no effect.
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

// Source evaluates expressions over what has been recorded so far.
func (r *Recorder) Source() *Series {
	return &Series{memory: r.memory, engine: newEngine(), name: "recording " + strings.TrimSuffix(r.dir, "/"), live: true}
}
