package signals

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"time"
)

// Status of a signal in a reading.
const (
	StatusOK      = "ok"
	StatusNoData  = "no_data" // the metric exists, but has no data in the window
	StatusMissing = "missing" // the source lacks the metric
)

// Special buckets of a quantile.
const (
	WithinFirst = "first_bucket" // anywhere between zero and the first bucket's bound
	BeyondLast  = "last_bucket"  // above the highest bound: the value is that bound
)

// Reading has the golden signals at a moment.
type Reading struct {
	Schema  int     `json:"schema"`
	Source  string  `json:"source"`
	AtMS    int64   `json:"at_unix_ms"`
	WindowS float64 `json:"window_s"`
	Signals []Value `json:"signals"`
	// Missing lists the metrics that the source lacks.
	Missing []string `json:"missing_metrics"`
	Alerts  []Alert  `json:"alerts,omitempty"`
	// Problems lists what could not be read, such as a target.
	Problems []string `json:"problems,omitempty"`
}

// Value is one signal of a reading. Value is nil unless Status is ok.
type Value struct {
	Key    string   `json:"key"`
	Group  string   `json:"group"`
	Title  string   `json:"title"`
	Unit   string   `json:"unit"`
	Status string   `json:"status"`
	Value  *float64 `json:"value,omitempty"` // of a signal with parts: their sum, or for a ratio the maximum
	Parts  []Part   `json:"parts,omitempty"`
	// Value is a quantile interpolated within a bucket; the observation itself lies
	// anywhere from LowS to HighS. Bucket is set for the first and the last bucket.
	Bucket    string   `json:"bucket,omitempty"`
	LowS      float64  `json:"bucket_low_s,omitempty"`
	HighS     float64  `json:"bucket_high_s,omitempty"`
	Saturated bool     `json:"saturated,omitempty"`
	Missing   []string `json:"missing_metrics,omitempty"`
	Note      string   `json:"note,omitempty"`
	Expr      string   `json:"expr"`
}

// Part is the value of one label.
type Part struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// Read evaluates the whole table at a moment. It returns an error only if the source
// fails; what the source lacks is part of the reading.
func Read(ctx context.Context, s Source, o Options, at time.Time) (Reading, error) {
	o = o.withDefaults()
	table := Table(o)
	r := Reading{Schema: 1, Source: s.String(), AtMS: at.UnixMilli(), WindowS: o.Window.Seconds(), Missing: []string{}}
	has, err := s.Has(ctx, metricsOf(table), at.Add(-max(o.Window, lookback)), at)
	if err != nil {
		return r, err
	}
	shapes := map[string]shape{}
	for _, signal := range table {
		v := Value{Key: signal.Key, Group: signal.Group, Title: signal.Title, Unit: signal.Unit, Note: signal.Note}
		v.Expr = signal.Expr
		for _, name := range signal.Metrics {
			if !has[name] {
				v.Missing = append(v.Missing, name)
			}
		}
		if v.Missing != nil {
			v.Status = StatusMissing
			r.Signals = append(r.Signals, v)
			for _, name := range v.Missing {
				if !slices.Contains(r.Missing, name) {
					r.Missing = append(r.Missing, name)
				}
			}
			continue
		}
		samples, err := s.Instant(ctx, v.Expr, at)
		if err != nil {
			return r, err
		}
		v.fill(signal, samples)
		if signal.Quantile > 0 && v.Status == StatusOK {
			b, known := shapes[signal.Family]
			if !known {
				if b, err = shapeOf(ctx, s, o, signal.Family, at); err != nil {
					return r, err
				}
				shapes[signal.Family] = b
			}
			b.judge(&v)
		}
		r.Signals = append(r.Signals, v)
	}
	return r, nil
}

// metricsOf returns the distinct names that the table needs, in order.
func metricsOf(table []Signal) []string {
	var names []string
	for _, s := range table {
		for _, name := range s.Metrics {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// fill sets the value from the result of the expression, which is NaN if nothing was
// observed.
func (v *Value) fill(signal Signal, samples []Sample) {
	var total, highest float64
	v.Status = StatusNoData
	for _, s := range samples {
		if math.IsNaN(s.Value) || math.IsInf(s.Value, 0) {
			continue
		}
		v.Status = StatusOK
		total, highest = total+s.Value, max(highest, s.Value)
		if signal.By != "" {
			v.Parts = append(v.Parts, Part{s.Labels[signal.By], s.Value})
		}
	}
	if v.Status != StatusOK {
		return
	}
	slices.SortFunc(v.Parts, func(a, b Part) int { return cmp.Compare(a.Name, b.Name) })
	if signal.Unit == UnitRatio {
		total = highest // of several replicas, the busiest counts
		v.Saturated = highest >= SaturatedAt
	}
	v.Value = &total
}

// bucket lies between two bounds of a histogram.
type bucket struct{ low, high float64 }

// shape has the buckets in which a histogram's observations of the window can lie, ascending.
type shape []bucket

func shapeOf(ctx context.Context, s Source, o Options, metric string, at time.Time) (shape, error) {
	samples, err := s.Instant(ctx, o.Expand("sum by (le) (rate("+metric+"_bucket{$i}[$w]))"), at)
	var bounds []float64
	for _, sample := range samples {
		le, err := strconv.ParseFloat(sample.Labels["le"], 64)
		if err == nil && !math.IsInf(le, 0) {
			bounds = append(bounds, le)
		}
	}
	if len(bounds) == 0 {
		return nil, err
	}
	slices.Sort(bounds)
	b := shape{{high: bounds[0]}}
	for i := range bounds[1:] {
		b = append(b, bucket{bounds[i], bounds[i+1]})
	}
	return append(b, bucket{bounds[len(bounds)-1], math.Inf(1)}), err
}

// judge records in which bucket a quantile fell. A value beyond all bounds is reported
// as the highest bound.
func (b shape) judge(v *Value) {
	if len(b) == 0 {
		return
	}
	if last := b[len(b)-1]; *v.Value >= last.low {
		v.Bucket, v.LowS = BeyondLast, last.low
		return
	}
	i, _ := slices.BinarySearchFunc(b, *v.Value, func(one bucket, value float64) int { return cmp.Compare(one.high, value) })
	if i == 0 {
		v.Bucket, v.HighS = WithinFirst, b[0].high
		return
	}
	v.LowS, v.HighS = b[i].low, b[i].high
}

// Find returns a signal of the reading by key.
func (r *Reading) Find(key string) (Value, bool) {
	for _, v := range r.Signals {
		if v.Key == key {
			return v, true
		}
	}
	return Value{}, false
}
