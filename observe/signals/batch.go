package signals

import (
	"cmp"
	"fmt"
	"math"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/record"
)

// batch collects the samples of one moment or one page, so that they are
// recorded atomically.
type batch struct {
	memory   *memory
	fresh    []*stored                 // series that are not in memory yet
	byLabels map[labels.Labels]*stored // the same
	pending  []sampleOf
}

type sampleOf struct {
	series *stored
	ms     int64
	value  float64
}

func newBatch(m *memory) *batch { return &batch{memory: m, byLabels: map[labels.Labels]*stored{}} }

// sample adds a sample to a series, or to the one with these labels if s is
// nil, and returns the series. The sample must be newer than all recorded ones;
// repeating the newest one is not an error and is ignored.
func (b *batch) sample(s *stored, l labels.Labels, ms int64, v float64) (*stored, error) {
	if s == nil {
		s = b.find(l)
	}
	if len(s.chunks) > 0 && ms <= s.last {
		switch {
		case ms < s.last:
			return s, storage.ErrOutOfOrderSample
		case math.Float64bits(v) != math.Float64bits(s.value):
			return s, storage.ErrDuplicateSampleForTimestamp
		}
		return s, nil
	}
	b.pending = append(b.pending, sampleOf{s, ms, v})
	return s, nil
}

// samples adds samples of one moment.
func (b *batch) samples(ms int64, samples []Sample) error {
	for _, s := range samples {
		of := labels.NewBuilder(labels.FromMap(s.Labels)).Set(metricName, s.Name).Labels()
		if _, err := b.sample(nil, of, ms, s.Value); err != nil {
			return fmt.Errorf("%s: %w", of, err)
		}
	}
	return nil
}

// find returns the series with these labels, creating a fresh one if necessary.
func (b *batch) find(l labels.Labels) *stored {
	s := cmp.Or(b.memory.byLabels[l], b.byLabels[l])
	if s == nil {
		s = &stored{labels: l}
		b.fresh, b.byLabels[l] = append(b.fresh, s), s
	}
	return s
}

// records returns the batch as journal records. Fresh series get the references
// that memory is going to assign.
func (b *batch) records() (defined []record.RefSeries, samples []record.RefSample) {
	for i, s := range b.fresh {
		s.ref = chunks.HeadSeriesRef(len(b.memory.series) + i + 1)
		defined = append(defined, record.RefSeries{Ref: s.ref, Labels: s.labels})
	}
	for _, p := range b.pending {
		samples = append(samples, record.RefSample{Ref: p.series.ref, T: p.ms, V: p.value})
	}
	return defined, samples
}
