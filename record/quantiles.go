package record

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A Quantile is a share of a distribution, from 0 to 1: the share of values at or below the
// quantile's value. 1 is the maximum.
type Quantile float64

// percentiles lists the percentiles that the program reports. Adding a line adds a percentile to
// all documents, findings, assertions and tables, except tables that choose among findings. The
// existing four are required by checks and sentences.
var percentiles = [...]Quantile{
	0.5,
	0.9,
	0.99,
	0.999,
}

// Name returns the quantile's name in documents, findings and assertions: p50, p999, max.
func (q Quantile) Name() string { return strings.ReplaceAll(q.Head(), ".", "") }

// Head returns the quantile's name in tables and sentences: p50, p99.9, max.
func (q Quantile) Head() string {
	if q == 1 {
		return "max"
	}
	return "p" + q.percent()
}

// Words returns the quantile's name in prose: median, 99.9th percentile, maximum.
func (q Quantile) Words() string {
	switch q {
	case 0.5:
		return "median"
	case 1:
		return "maximum"
	}
	return q.percent() + "th percentile"
}

func (q Quantile) percent() string {
	return strconv.FormatFloat(math.Round(float64(q)*1e7)/1e5, 'f', -1, 64)
}

// Needs returns the number of observations needed to leave one beyond the quantile; 0 for
// the median and the maximum, which need no minimum.
func (q Quantile) Needs() int {
	if q <= 0.5 || q >= 1 {
		return 0
	}
	return int(math.Round(1 / float64(1-q)))
}

// Percentiles returns the percentiles that the program reports, in ascending order.
func Percentiles() []Quantile { return slices.Clone(percentiles[:]) }

// WithMax returns the percentiles and the maximum.
func WithMax() []Quantile { return append(Percentiles(), 1) }

// UpTo99 returns the percentiles up to the 99th, and the maximum. Short windows and small
// groups of proxies report these because they have too few observations for more.
func UpTo99() []Quantile {
	return slices.DeleteFunc(WithMax(), func(q Quantile) bool { return q > 0.99 && q < 1 })
}

// Quantiles holds the values of a distribution at the quantiles of [WithMax], in that order.
// A quantile has no value if too few observations lie beyond it, if it falls among
// observations that never ended, or if the record of another version lacks it.
type Quantiles [len(percentiles) + 1]struct {
	value float64
	known bool
}

// QuantilesOf reads each quantile with at, which returns NaN if the value is unknown.
func QuantilesOf(at func(q float64) float64) Quantiles {
	var out Quantiles
	for _, q := range WithMax() {
		if v := at(float64(q)); !math.IsNaN(v) {
			out.Set(q, v)
		}
	}
	return out
}

// QuantilesAt builds Quantiles from pairs of a quantile and its value.
func QuantilesAt(pairs ...float64) Quantiles {
	var out Quantiles
	for i := 0; i < len(pairs); i += 2 {
		out.Set(Quantile(pairs[i]), pairs[i+1])
	}
	return out
}

// place returns the index of a quantile's value. It panics for quantiles that the program
// does not report.
func place(q Quantile) int {
	i := slices.Index(WithMax(), q)
	if i < 0 {
		panic(fmt.Sprintf("the quantile %v is not reported", float64(q)))
	}
	return i
}

// At returns the value of a quantile; 0 if unknown.
func (l Quantiles) At(q Quantile) float64 { return l[place(q)].value }

// Known reports whether a quantile has a value.
func (l Quantiles) Known(q Quantile) bool { return l[place(q)].known }

// Max returns the largest value; 0 if unknown.
func (l Quantiles) Max() float64 { return l.At(1) }

// Set sets the value of a quantile.
func (l *Quantiles) Set(q Quantile, v float64) {
	at := &l[place(q)]
	at.value, at.known = v, true
}

// Unset removes the value of a quantile.
func (l *Quantiles) Unset(q Quantile) { l[place(q)].value, l[place(q)].known = 0, false }

// Larger returns the larger value of two distributions at each quantile.
func (l Quantiles) Larger(other Quantiles) Quantiles {
	for i, v := range other {
		if v.known && (!l[i].known || v.value > l[i].value) {
			l[i] = v
		}
	}
	return l
}

// MarshalJSON writes one member per quantile by name, with null for unknown values.
func (l Quantiles) MarshalJSON() ([]byte, error) { return object(l.members(nil)...) }

// UnmarshalJSON reads the format of MarshalJSON. It ignores other quantiles.
func (l *Quantiles) UnmarshalJSON(data []byte) error {
	var read map[string]*float64
	if err := json.Unmarshal(data, &read); err != nil {
		return err
	}
	*l = QuantilesOf(func(q float64) float64 {
		if v := read[Quantile(q).Name()]; v != nil {
			return *v
		}
		return math.NaN()
	})
	return nil
}

// Latency summarizes a distribution of times in microseconds. Its JSON is one flat object,
// with 0 for unknown quantiles.
type Latency struct {
	Min float64
	Quantiles
	Mean float64
}

// LatencyAt builds a Latency from pairs of a quantile and its value; see [QuantilesAt].
func LatencyAt(pairs ...float64) Latency { return Latency{Quantiles: QuantilesAt(pairs...)} }

// MarshalJSON writes the latency as one object.
func (l Latency) MarshalJSON() ([]byte, error) {
	return object(slices.Concat([]member{{"min", l.Min}}, l.members(0), []member{{"mean", l.Mean}})...)
}

// UnmarshalJSON reads the format of MarshalJSON.
func (l *Latency) UnmarshalJSON(data []byte) error {
	read, err := numbers(data)
	*l = Latency{Min: read["min"], Quantiles: notZero(read), Mean: read["mean"]}
	return err
}

// Counted is a count of times and their quantiles, in microseconds. Its JSON is one flat
// object, with 0 for unknown quantiles.
type Counted struct {
	Count int64
	Quantiles
}

// MarshalJSON writes the count and the quantiles as one object.
func (c Counted) MarshalJSON() ([]byte, error) {
	return object(append([]member{{"count", c.Count}}, c.members(0)...)...)
}

// UnmarshalJSON reads the format of MarshalJSON.
func (c *Counted) UnmarshalJSON(data []byte) error {
	read, err := numbers(data)
	*c = Counted{Count: int64(read["count"]), Quantiles: notZero(read)}
	return err
}

// A member is a member of a JSON object.
type member struct {
	name  string
	value any
}

// members returns the quantiles in order; unknown ones have the value unknown.
func (l Quantiles) members(unknown any) []member {
	var out []member
	for i, q := range WithMax() {
		m := member{q.Name(), unknown}
		if l[i].known {
			m.value = l[i].value
		}
		out = append(out, m)
	}
	return out
}

// object writes members in the given order, which a map would lose.
func object(members ...member) ([]byte, error) {
	out := []byte{'{'}
	for i, m := range members {
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(fmt.Appendf(out, "%q:", m.name), value...)
	}
	return append(out, '}'), nil
}

// numbers reads an object of numbers.
func numbers(data []byte) (map[string]float64, error) {
	var out map[string]float64
	err := json.Unmarshal(data, &out)
	return out, err
}

// notZero returns the quantiles with nonzero values.
func notZero(read map[string]float64) (out Quantiles) {
	for _, q := range WithMax() {
		if v := read[q.Name()]; v != 0 {
			out.Set(q, v)
		}
	}
	return out
}
