package signals

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/record"
	"github.com/prometheus/prometheus/util/annotations"
)

// metricName is the label that holds a series's name.
const metricName = "__name__"

// chunkSamples is the number of samples per chunk: enough for good compression,
// few enough to skip what a query does not need.
const chunkSamples = 120

// memory holds the samples of a recording, compressed as in Prometheus (one or
// two bytes each), and makes them available to its query engine. One goroutine
// may add while others read.
type memory struct {
	mu       sync.RWMutex
	series   []*stored // by reference - 1
	byLabels map[labels.Labels]*stored
	byName   map[string][]*stored
	from, to int64 // times of the first and the last sample, in ms
}

// stored is a series in memory.
type stored struct {
	ref    chunks.HeadSeriesRef
	labels labels.Labels
	chunks []chunks.Meta // ascending in time; the last one is still growing
	app    chunkenc.Appender
	last   int64 // time of the newest sample, in ms; further ones must be later
	value  float64
}

func newMemory() *memory {
	return &memory{byLabels: map[labels.Labels]*stored{}, byName: map[string][]*stored{}, from: math.MaxInt64, to: math.MinInt64}
}

// define adds a series; its reference is the next free one.
func (m *memory) define(s *stored) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.ref = chunks.HeadSeriesRef(len(m.series) + 1)
	m.series = append(m.series, s)
	m.byLabels[s.labels] = s
	name := s.labels.Get(metricName)
	m.byName[name] = append(m.byName[name], s)
}

// add adds samples of defined series. If a series's samples are not ascending
// in time, the first counts.
func (m *memory) add(samples []record.RefSample) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, sample := range samples {
		s := m.series[sample.Ref-1]
		if len(s.chunks) > 0 && sample.T <= s.last {
			continue
		}
		if err := s.add(sample.T, sample.V); err != nil {
			return err
		}
		m.from, m.to = min(m.from, sample.T), max(m.to, sample.T)
	}
	return nil
}

func (s *stored) add(ms int64, v float64) error {
	if n := len(s.chunks); n == 0 || s.chunks[n-1].Chunk.NumSamples() >= chunkSamples {
		c := chunkenc.NewXORChunk()
		app, err := c.Appender()
		if err != nil {
			return err
		}
		if n > 0 {
			s.chunks[n-1].Chunk.Compact()
		}
		s.app, s.chunks = app, append(s.chunks, chunks.Meta{Chunk: c, MinTime: ms})
	}
	s.app.Append(0, ms, v)
	s.chunks[len(s.chunks)-1].MaxTime = ms
	s.last, s.value = ms, v
	return nil
}

// has reports whether a metric has samples in a span.
func (m *memory) has(name string, from, to int64) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.ContainsFunc(m.byName[name], func(s *stored) bool { return len(s.between(from, to)) > 0 })
}

// between returns the chunks that overlap a span. Full chunks never change; it
// copies the one that is still growing.
func (s *stored) between(from, to int64) []chunkenc.Iterable {
	var out []chunkenc.Iterable
	for i, c := range s.chunks {
		if c.MaxTime < from || c.MinTime > to {
			continue
		}
		if i == len(s.chunks)-1 {
			growing := chunkenc.NewXORChunk()
			growing.Reset(slices.Clone(c.Chunk.Bytes()))
			c.Chunk = growing
		}
		out = append(out, c.Chunk)
	}
	return out
}

// Querier implements [storage.Queryable].
func (m *memory) Querier(from, to int64) (storage.Querier, error) {
	return &querier{memory: m, from: from, to: to}, nil
}

// querier reads a span of time in milliseconds, both ends inclusive.
type querier struct {
	memory   *memory
	from, to int64
}

// Select implements [storage.Querier]. The result is always sorted, and does
// not change as samples are added.
func (q *querier) Select(_ context.Context, _ bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	from, to := q.from, q.to
	if hints != nil {
		from, to = hints.Start, hints.End
	}
	found := &seriesSet{}
	q.memory.each(matchers, func(s *stored) {
		if overlapping := s.between(from, to); len(overlapping) > 0 {
			found.series = append(found.series, &storage.SeriesEntry{Lset: s.labels, SampleIteratorFn: func(it chunkenc.Iterator) chunkenc.Iterator {
				return storage.ChainSampleIteratorFromIterables(it, overlapping)
			}})
		}
	})
	slices.SortFunc(found.series, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	return found
}

// each calls f for the series that match all matchers.
func (m *memory) each(matchers []*labels.Matcher, f func(*stored)) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	candidates := m.series
	for _, match := range matchers {
		if match.Name == metricName && match.Type == labels.MatchEqual {
			candidates = m.byName[match.Value]
		}
	}
	for _, s := range candidates {
		if !slices.ContainsFunc(matchers, func(match *labels.Matcher) bool { return !match.Matches(s.labels.Get(match.Name)) }) {
			f(s)
		}
	}
}

// LabelValues implements [storage.LabelQuerier]; the engine never asks.
func (q *querier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, errors.ErrUnsupported
}

// LabelNames implements [storage.LabelQuerier]; the engine never asks.
func (q *querier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, errors.ErrUnsupported
}

// Close implements [storage.LabelQuerier].
func (q *querier) Close() error { return nil }

// seriesSet iterates over a list of series.
type seriesSet struct {
	series []storage.Series
	next   int
}

func (s *seriesSet) Next() bool                        { s.next++; return s.next <= len(s.series) }
func (s *seriesSet) At() storage.Series                { return s.series[s.next-1] }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }
