package signals

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// Source evaluates PromQL.
type Source interface {
	// String returns the display name of the source.
	String() string
	// Instant evaluates an expression at a moment. The result omits series
	// without a value at that moment, and may be empty.
	Instant(ctx context.Context, expr string, at time.Time) ([]Sample, error)
	// Range evaluates an expression at every step from one moment to another.
	Range(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]Track, error)
	// Has reports which of the metrics have samples between two moments.
	Has(ctx context.Context, names []string, from, to time.Time) (map[string]bool, error)
}

// Track is one series over time.
type Track struct {
	Labels map[string]string
	Points []Point
}

// Point is a value at a moment, in Unix milliseconds.
type Point struct {
	MS    int64
	Value float64
}

const (
	// lookback is how old a series's newest sample may be to count as its
	// value, as in Prometheus.
	lookback = 5 * time.Minute
	// queryTimeout is the timeout of one expression.
	queryTimeout = time.Minute
	// maxSamples limits the memory of one expression (16 bytes per sample).
	maxSamples = 20_000_000
)

func newParser() parser.Parser { return parser.NewParser(parser.Options{}) }

func newEngine() *promql.Engine {
	return promql.NewEngine(promql.EngineOpts{
		MaxSamples: maxSamples, Timeout: queryTimeout, LookbackDelta: lookback,
		EnableAtModifier: true, EnableNegativeOffset: true, Parser: newParser(),
	})
}

// Series is a Source over recorded series.
type Series struct {
	memory *memory
	engine *promql.Engine
	name   string
	live   bool // a Recorder is still appending to it
}

var _ Source = (*Series)(nil)

// OpenSeries opens the recorded series of a run, or those of a recorder that
// has not closed its directory because it is still writing or died. It does not
// modify the directory.
func OpenSeries(dir string) (*Series, error) {
	hint := "give a folder that metrics were recorded in, such as series/ of a run directory"
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		if err == nil {
			err = fmt.Errorf("%s is not a folder", dir)
		}
		return nil, errs.WithHint(errs.Usage("recorded series: %v", err), "%s", hint)
	}
	s := &Series{memory: newMemory(), engine: newEngine(), name: "series " + dir}
	if _, err := readJournal(dir, s.memory); err != nil {
		return nil, fmt.Errorf("series %s: %w", dir, err)
	}
	if s.memory.from > s.memory.to {
		return nil, errs.WithHint(errs.Usage("series %s: no metrics were recorded here", dir), "%s", hint)
	}
	return s, nil
}

// String returns the name of the directory.
func (s *Series) String() string { return s.name }

// Span returns the start and the end of the recording; zero for a live one.
func (s *Series) Span() (from, to time.Time) {
	if s.live {
		return time.Time{}, time.Time{}
	}
	return time.UnixMilli(s.memory.from), time.UnixMilli(s.memory.to)
}

// Instant implements [Source].
func (s *Series) Instant(ctx context.Context, expr string, at time.Time) ([]Sample, error) {
	query, err := s.engine.NewInstantQuery(ctx, s.memory, nil, expr, at)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", expr, err)
	}
	defer query.Close()
	result := query.Exec(ctx)
	if result.Err != nil {
		return nil, fmt.Errorf("%s: %w", expr, result.Err)
	}
	switch v := result.Value.(type) {
	case promql.Vector:
		out := make([]Sample, 0, len(v))
		for _, sample := range v {
			name, own := split(sample.Metric)
			out = append(out, Sample{Name: name, Labels: own, Value: sample.F})
		}
		return out, nil
	case promql.Scalar:
		return []Sample{{Value: v.V}}, nil
	}
	return nil, fmt.Errorf("%s: gives a %s, not a value a series", expr, result.Value.Type())
}

// Range implements [Source].
func (s *Series) Range(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]Track, error) {
	query, err := s.engine.NewRangeQuery(ctx, s.memory, nil, expr, from, to, step)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", expr, err)
	}
	defer query.Close()
	result := query.Exec(ctx)
	matrix, err := result.Matrix()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", expr, err)
	}
	out := make([]Track, 0, len(matrix))
	for _, series := range matrix {
		_, own := split(series.Metric)
		t := Track{Labels: own}
		for _, p := range series.Floats {
			t.Points = append(t.Points, Point{p.T, p.F})
		}
		out = append(out, t)
	}
	return out, nil
}

// Has implements [Source].
func (s *Series) Has(_ context.Context, names []string, from, to time.Time) (map[string]bool, error) {
	has := make(map[string]bool, len(names))
	for _, name := range names {
		has[name] = s.memory.has(name, from.UnixMilli(), to.UnixMilli())
	}
	return has, nil
}

func split(l labels.Labels) (name string, own map[string]string) {
	own = l.Map()
	name = own[metricName]
	delete(own, metricName)
	return name, own
}
