package record

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A Quantile is a share of a distribution, from 0 to 1: at or below its value so much of it
// lies. 1 is the maximum.
type Quantile float64

// percentiles are those that the program reports: documents, findings, assertions and
// tables have every one of them. A line more here is a percentile more in all of these.
// None of the four can go: checks and sentences ask for them.
var percentiles = [...]Quantile{
	0.5,
	0.9,
	0.99,
	0.999,
}

// Name is the quantile's name in documents, findings and assertions: p50, p999, max.
func (q Quantile) Name() string { return strings.ReplaceAll(q.Head(), ".", "") }

// Head is the quantile's name in tables and sentences: p50, p99.9, max.
func (q Quantile) Head() string {
	if q == 1 {
		return "max"
	}
	return "p" + q.percent()
}

// Words name the quantile in prose: median, 99.9th percentile, maximum.
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

// Needs is how many observations leave one beyond the quantile; 0 for the median and the
// maximum, which any number of them has.
func (q Quantile) Needs() int {
	if q <= 0.5 || q >= 1 {
		return 0
	}
	return int(math.Round(1 / float64(1-q)))
}

// Percentiles lists the percentiles that the program reports, in ascending order.
func Percentiles() []Quantile { return slices.Clone(percentiles[:]) }

// WithMax lists the percentiles and the maximum.
func WithMax() []Quantile { return append(Percentiles(), 1) }

// UpTo99 lists the percentiles up to the 99th and the maximum: what short windows and
// small groups of proxies report, which hold too few observations for more.
func UpTo99() []Quantile {
	return slices.DeleteFunc(WithMax(), func(q Quantile) bool { return q > 0.99 && q < 1 })
}

// Quantiles holds the values of a distribution at the quantiles of [WithMax], in their
// order. Those that are not known have no value: too few observations lie beyond them,
// they lie among observations that never ended, or a record of another version lacks them.
type Quantiles [len(percentiles) + 1]struct {
	value float64
	known bool
}

// QuantilesOf reads each quantile with at, which returns NaN where it is not known.
func QuantilesOf(at func(q float64) float64) Quantiles {
	var out Quantiles
	for _, q := range WithMax() {
		if v := at(float64(q)); !math.IsNaN(v) {
			out.Set(q, v)
		}
	}
	return out
}

// QuantilesAt holds the values of some quantiles: a quantile, its value, and so on.
func QuantilesAt(pairs ...float64) Quantiles {
	var out Quantiles
	for i := 0; i < len(pairs); i += 2 {
		out.Set(Quantile(pairs[i]), pairs[i+1])
	}
	return out
}

// place is where a quantile's value is. It panics for one that the program does not report.
func place(q Quantile) int {
	i := slices.Index(WithMax(), q)
	if i < 0 {
		panic(fmt.Sprintf("the quantile %v is not reported", float64(q)))
	}
	return i
}

// At is the value of a quantile; 0 if it is not known.
func (l Quantiles) At(q Quantile) float64 { return l[place(q)].value }

// Known reports whether a quantile has a value.
func (l Quantiles) Known(q Quantile) bool { return l[place(q)].known }

// Max is the largest value; 0 if it is not known.
func (l Quantiles) Max() float64 { return l.At(1) }

// Set gives a quantile its value.
func (l *Quantiles) Set(q Quantile, v float64) {
	at := &l[place(q)]
	at.value, at.known = v, true
}

// Unset takes the value of a quantile away.
func (l *Quantiles) Unset(q Quantile) { l[place(q)].value, l[place(q)].known = 0, false }

// Larger has the larger value of two distributions at each quantile.
func (l Quantiles) Larger(other Quantiles) Quantiles {
	for i, v := range other {
		if v.known && (!l[i].known || v.value > l[i].value) {
			l[i] = v
		}
	}
	return l
}

// MarshalJSON writes a member for each quantile by its name, null for one that is not known.
func (l Quantiles) MarshalJSON() ([]byte, error) { return object(l.members(nil)...) }

// UnmarshalJSON reads what MarshalJSON wrote. Members of other quantiles are left out.
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

// Latency summarises a distribution of times, in microseconds. In JSON its members stand
// side by side, with 0 for quantiles that are not known.
type Latency struct {
	Min float64
	Quantiles
	Mean float64
}

// LatencyAt holds the values of some quantiles: see [QuantilesAt].
func LatencyAt(pairs ...float64) Latency { return Latency{Quantiles: QuantilesAt(pairs...)} }

// MarshalJSON writes the latency as one object.
func (l Latency) MarshalJSON() ([]byte, error) {
	return object(slices.Concat([]member{{"min", l.Min}}, l.members(0), []member{{"mean", l.Mean}})...)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (l *Latency) UnmarshalJSON(data []byte) error {
	read, err := numbers(data)
	*l = Latency{Min: read["min"], Quantiles: notZero(read), Mean: read["mean"]}
	return err
}

// Counted is the quantiles of so many times, in microseconds. In JSON its members stand side
// by side, with 0 for quantiles that are not known.
type Counted struct {
	Count int64
	Quantiles
}

// MarshalJSON writes the count and the quantiles as one object.
func (c Counted) MarshalJSON() ([]byte, error) {
	return object(append([]member{{"count", c.Count}}, c.members(0)...)...)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (c *Counted) UnmarshalJSON(data []byte) error {
	read, err := numbers(data)
	*c = Counted{Count: int64(read["count"]), Quantiles: notZero(read)}
	return err
}

// A member is one of a JSON object.
type member struct {
	name  string
	value any
}

// members are the quantiles in order; those that are not known have the value unknown.
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

// object writes members in their order, which a map would lose.
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

// notZero has the quantiles that have another value than 0.
func notZero(read map[string]float64) (out Quantiles) {
	for _, q := range WithMax() {
		if v := read[q.Name()]; v != 0 {
			out.Set(q, v)
		}
	}
	return out
}
