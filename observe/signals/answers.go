package signals

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/record"
)

// Answers collects the series in saved responses of Prometheus's HTTP API (query and
// query_range), and in what promtool query prints as JSON, to evaluate PromQL over them.
// The zero value is empty.
type Answers struct {
	series map[labels.Labels]*savedSeries
	points int
	native map[string]bool // names of native histograms
}

// savedSeries is one series of all files; its points are in any order.
type savedSeries struct {
	labels labels.Labels
	points []Point
}

// Limits of what is kept of answers.
const (
	maxAnswered = 300_000   // series
	maxPoints   = 4_000_000 // of 16 bytes each
	// maxElement is the maximum size of one series in a file, in bytes, give or take what is
	// read ahead. query_range returns at most 11,000 samples of a series.
	maxElement = 4 << 20
	lastMS     = 1 << 42 // in the year 2109
)

// ErrNameless is returned for an answer to an expression: its series have no names, so
// what they measure is unknown.
var ErrNameless = errors.New("the series have no names")

// Read adds the series of one file, all of them or none. It holds one series of the
// file at a time in addition to what it keeps.
func (a *Answers) Read(in io.Reader) error {
	var read []savedSeries
	points, nameless := 0, 0
	native := map[string]bool{}
	err := walkAnswer(in, func(metric map[string]string, values []point) error {
		if metric[metricName] == "" {
			nameless++
			return nil
		}
		points += len(values)
		if len(read)+len(a.series)+len(native)+len(a.native) >= maxAnswered || points+a.points > maxPoints {
			return fmt.Errorf("more than %d series or %d samples", maxAnswered, maxPoints)
		}
		if len(values) == 0 {
			native[metric[metricName]] = true
			return nil
		}
		s := savedSeries{labels: labels.FromMap(metric), points: make([]Point, len(values))}
		for i, v := range values {
			if v.MS < 0 || v.MS > lastMS {
				return fmt.Errorf("a sample at Unix time %d ms", v.MS)
			}
			s.points[i] = Point(v)
		}
		read = append(read, s)
		return nil
	})
	switch {
	case err != nil:
		return err
	case nameless > 0 && len(read)+len(native) == 0:
		return ErrNameless
	}
	for _, s := range read {
		a.add(s)
	}
	a.points += points
	if a.native == nil {
		a.native = map[string]bool{}
	}
	maps.Copy(a.native, native)
	return nil
}

func (a *Answers) add(s savedSeries) {
	if known := a.series[s.labels]; known != nil {
		known.points = append(known.points, s.points...)
		return
	}
	if a.series == nil {
		a.series = map[labels.Labels]*savedSeries{}
	}
	a.series[s.labels] = &s
}

// Native returns the names of native histograms, which are not read, sorted.
func (a *Answers) Native() []string { return slices.Sorted(maps.Keys(a.native)) }

// Empty reports whether there are no series.
func (a *Answers) Empty() bool { return len(a.series) == 0 }

// Sampled describes when a metric was sampled.
type Sampled struct {
	First, Last time.Time
	// Whole is the share of its series that last from the first tenth of the span to its
	// last tenth. The span is that of all series, or where few last so long, of most of them.
	Whole float64
}

// Sampled returns when each metric was sampled.
func (a *Answers) Sampled() map[string]Sampled {
	all := map[string][]edges{}
	for _, s := range a.series {
		e := edges{s.points[0].MS, s.points[0].MS}
		for _, p := range s.points {
			e.first, e.last = min(e.first, p.MS), max(e.last, p.MS)
		}
		name := s.labels.Get(metricName)
		all[name] = append(all[name], e)
	}
	out := map[string]Sampled{}
	for name, series := range all {
		whole := series[0]
		for _, e := range series {
			whole.first, whole.last = min(whole.first, e.first), max(whole.last, e.last)
		}
		n := lasting(series, whole)
		if most := mostOf(series); n*2 < len(series) && most.last-most.first >= (whole.last-whole.first)/2 {
			whole, n = most, lasting(series, most) // a few began earlier than the rest
		}
		out[name] = Sampled{time.UnixMilli(whole.first), time.UnixMilli(whole.last), float64(n) / float64(len(series))}
	}
	return out
}

// edges are the first and the last sample of series, in ms.
type edges struct{ first, last int64 }

// lasting counts series that last from the first tenth of a span to its last tenth.
func lasting(series []edges, span edges) (n int) {
	edge := (span.last - span.first) / 10
	for _, e := range series {
		if e.first <= span.first+edge && e.last >= span.last-edge {
			n++
		}
	}
	return n
}

// mostOf is the span in which three quarters of series have begun, and three quarters have not ended.
func mostOf(series []edges) edges {
	var first, last []int64
	for _, e := range series {
		first, last = append(first, e.first), append(last, e.last)
	}
	slices.Sort(first)
	slices.Sort(last)
	return edges{first[len(first)*3/4], last[len(last)/4]}
}

// Source evaluates expressions over what was read so far.
func (a *Answers) Source(name string) (*Series, error) {
	m := newMemory()
	for _, s := range a.series {
		slices.SortStableFunc(s.points, func(a, b Point) int { return cmp.Compare(a.MS, b.MS) })
		m.define(&stored{labels: s.labels})
		samples := make([]record.RefSample, len(s.points))
		for i, p := range s.points {
			samples[i] = record.RefSample{Ref: chunks.HeadSeriesRef(len(m.series)), T: p.MS, V: p.Value}
		}
		if err := m.add(samples); err != nil {
			return nil, err
		}
	}
	return &Series{memory: m, engine: newEngine(), name: name}, nil
}

// walkAnswer calls take for each series of a response, or of the list in it. Native histograms have
// no values.
func walkAnswer(in io.Reader, take func(metric map[string]string, values []point) error) error {
	w := answerWalk{in: &rationed{in: in, left: maxElement}, take: take}
	w.json = json.NewDecoder(w.in)
	opening, err := w.json.Token()
	if err != nil {
		return fmt.Errorf("not an answer of Prometheus: %w", err)
	}
	if opening == json.Delim('[') { // as promtool prints it
		return w.series()
	}
	if opening != json.Delim('{') {
		return errors.New("not an answer of Prometheus")
	}
	var status, kind, text string
	var warnings []string
	err = w.members(func(key string) error {
		switch key {
		case "status":
			return w.json.Decode(&status)
		case "errorType":
			return w.json.Decode(&kind)
		case "error":
			return w.json.Decode(&text)
		case "warnings":
			return w.json.Decode(&warnings)
		case "data":
			return w.data()
		}
		return w.skip()
	})
	switch {
	case err != nil:
		return err
	case status == "error":
		return fmt.Errorf("%w: %s: %s", errPrometheus, kind, text)
	case status != "success":
		return fmt.Errorf("not an answer of Prometheus: status %q", status)
	}
	return incomplete(warnings)
}

type answerWalk struct {
	in   *rationed
	json *json.Decoder
	take func(metric map[string]string, values []point) error
}

// members calls each for the members of an object whose opening brace was read.
func (w *answerWalk) members(each func(key string) error) error {
	for w.json.More() {
		w.in.left = maxElement
		key, err := w.json.Token()
		if err != nil {
			return err
		}
		if err := each(fmt.Sprint(key)); err != nil {
			return err
		}
	}
	_, err := w.json.Token()
	return err
}

func (w *answerWalk) skip() error {
	var value json.RawMessage
	return w.json.Decode(&value)
}

// data walks the member of this name, which is null in an error.
func (w *answerWalk) data() error {
	opening, err := w.json.Token()
	if err != nil || opening == nil {
		return err
	}
	if opening != json.Delim('{') {
		return errors.New("data: not the result of a query")
	}
	return w.members(func(key string) error {
		if key != "result" {
			return w.skip()
		}
		opening, err := w.json.Token()
		if err == nil && opening != json.Delim('[') {
			err = errors.New("result: not a list")
		}
		if err != nil {
			return err
		}
		return w.series()
	})
}

// series walks a list of series whose opening bracket was read.
func (w *answerWalk) series() error {
	for w.json.More() {
		w.in.left = maxElement
		var s resultSeries
		if err := w.json.Decode(&s); err != nil {
			return fmt.Errorf("result: %w", err)
		}
		if err := w.take(s.Metric, s.points()); err != nil {
			return err
		}
	}
	_, err := w.json.Token()
	return err
}

// rationed fails once it has passed more bytes than are left, so that one value of a
// file, or white space, cannot fill the memory.
type rationed struct {
	in   io.Reader
	left int
}

func (r *rationed) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, fmt.Errorf("a series of more than %d MB", maxElement>>20)
	}
	n, err := r.in.Read(p[:min(len(p), r.left)])
	r.left -= n
	return n, err
}
