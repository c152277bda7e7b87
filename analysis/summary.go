package analysis

import (
	"math"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// The density of curves.
const (
	percentileSteps = 8   // points per halving of the distance to 100%
	cdfPoints       = 200 // evenly spaced by share of requests
)

// summaries describes every cell of the plan over all blocks, except cells that a
// search did not need.
func (o *Observations) summaries() []record.CellSummary {
	trials := make([]int, len(o.Plan.Cells))
	for i := range o.Run.Trials {
		if cell, ok := o.Plan.Index(o.Run.Trials[i].Cell); ok {
			trials[cell]++
		}
	}
	out := make([]record.CellSummary, 0, len(o.Plan.Cells))
	for cell := range o.Plan.Cells {
		if o.Skipped(cell) {
			continue
		}
		s := o.summary(cell)
		s.Trials = trials[cell]
		out = append(out, s)
	}
	return out
}

func (o *Observations) summary(cell int) record.CellSummary {
	valid := o.Valid(cell)
	s := record.CellSummary{
		Cell: o.Short(cell), Label: o.Plan.Label(o.Plan.Cells[cell]), Baseline: o.Plan.IsBaseline(o.Plan.Cells[cell]),
		Valid: len(valid), CPUPerRequest: map[string]record.CPUPerRequest{}, MemoryBytes: map[string]int64{},
		Percentiles: []record.CurvePoint{}, CDF: []record.CurvePoint{}, BlockP50US: []record.BlockValue{}, Values: o.alone(cell),
	}
	var intended, send *hdrhistogram.Histogram
	var lag []float64
	failed := int64(0)
	for _, t := range valid {
		h := o.histogram(t)
		intended, send = merge(intended, h.Intended), merge(send, h.Send)
		failed += o.failed(t)
		if t.Load != nil {
			s.Requests += t.Load.Scheduled
			s.Unfinished += t.Load.Unfinished
			for _, n := range t.Load.Failed {
				s.Failed += n
			}
			lag = append(lag, t.Load.Lag.At(0.99))
		}
		if p50 := o.Latency(t).Quantile(0.5); stat.Finite(p50) {
			s.BlockP50US = append(s.BlockP50US, record.BlockValue{Block: t.Block, Repeat: t.Repeat, Value: p50})
		}
	}
	if len(valid) > 0 {
		s.Way = valid[0].Way
	}
	if o.kind.Summarize != nil {
		o.kind.Summarize(o, cell, valid, &s)
	}
	counts := stat.FromHistogram(intended, NsToUS).WithLost(failed)
	s.Intended, s.NotReached = latencyOf(intended, counts)
	s.Send, _ = latencyOf(send, stat.FromHistogram(send, NsToUS).WithLost(failed))
	s.Percentiles, s.CDF = Curves(counts)
	if len(lag) > 0 {
		s.LagP99US = stat.Median(lag) // median over trials
	}
	s.Schedule = schedule(valid)
	for _, part := range study.CPUParts {
		if c, ok := o.cpu(cell, part); ok {
			s.CPUPerRequest[part] = c
		}
	}
	s.Connections, s.Pressure = connections(valid), Pressure(valid)
	for _, part := range study.MemoryParts {
		var bytes []float64
		for _, t := range valid {
			if v := Memory(t, part); stat.Finite(v) {
				bytes = append(bytes, v)
			}
		}
		if len(bytes) > 0 {
			s.MemoryBytes[part] = int64(math.Round(stat.Median(bytes)))
		}
	}
	return s
}

// alone returns a cell's values by finding if its valid trials are in too few units for intervals,
// and nil otherwise.
func (o *Observations) alone(cell int) map[string]float64 {
	units := 0
	for _, blocks := range o.Units {
		if slices.ContainsFunc(blocks, func(block int) bool { return len(o.ValidIn(cell, block)) > 0 }) {
			units++
		}
	}
	if units == 0 || units >= MinBlocks {
		return nil
	}
	out := map[string]float64{}
	for _, m := range o.Measures() {
		if e, _ := o.Value(cell, m); stat.Finite(e.Value) && e.Blocks > 0 {
			out[m.Name] = e.Value
		}
	}
	return out
}

// connections returns the medians of the trials' connections by pod and by node proxy.
func connections(trials []*record.Trial) map[string]record.Connections {
	out := map[string]record.Connections{}
	for _, pod := range slices.Concat(record.ConnectedParts, record.Way(study.ProxyParts).At(record.PlaceNode)) {
		var all []record.Connections
		for _, t := range trials {
			if c, ok := t.Connections[pod]; ok {
				all = append(all, c)
			}
		}
		if len(all) == 0 {
			continue
		}
		of := func(number func(record.Connections) int64) int64 {
			return int64(math.Round(stat.MedianOf(all, func(c record.Connections) float64 { return float64(number(c)) })))
		}
		out[pod] = record.Connections{
			Established:   of(func(c record.Connections) int64 { return c.Established }),
			Opened:        of(func(c record.Connections) int64 { return c.Opened }),
			Accepted:      of(func(c record.Connections) int64 { return c.Accepted }),
			Retransmitted: of(func(c record.Connections) int64 { return c.Retransmitted }),
		}
	}
	return out
}

// Pressure returns the median of the trials' pressure, or nil if no trial recorded it.
func Pressure(trials []*record.Trial) *record.Pressure {
	var all []record.Pressure
	for _, t := range trials {
		if t.Pressure != nil {
			all = append(all, *t.Pressure)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return &record.Pressure{
		CPUSomeRatio:    stat.MedianOf(all, func(p record.Pressure) float64 { return p.CPUSomeRatio }),
		MemorySomeRatio: stat.MedianOf(all, func(p record.Pressure) float64 { return p.MemorySomeRatio }),
		IOSomeRatio:     stat.MedianOf(all, func(p record.Pressure) float64 { return p.IOSomeRatio }),
		StealRatio:      stat.MedianOf(all, func(p record.Pressure) float64 { return p.StealRatio }),
		BusyRatio:       stat.MedianOf(all, func(p record.Pressure) float64 { return p.BusyRatio }),
	}
}

// cpu returns the cost of a request in a part, with separate user and kernel time, and
// the interval of their sum; false if the cell lacks the part.
func (o *Observations) cpu(cell int, part string) (record.CPUPerRequest, bool) {
	measure := func(of func(record.CPU) float64) Measure {
		return Measure{Typical: true, Of: func(_ *Observations, t *record.Trial) float64 { return CPUPerRequest(t, part, of) }}
	}
	total, _ := o.Value(cell, measure(record.CPU.TotalS))
	if !stat.Finite(total.Value) {
		return record.CPUPerRequest{}, false
	}
	mean := func(of func(record.CPU) float64) float64 {
		return stat.Mean(o.Values(cell, measure(of)), stat.Options{}).Value
	}
	user, system := mean(func(c record.CPU) float64 { return c.UserS }), mean(func(c record.CPU) float64 { return c.SystemS })
	share := 1.0 // for a difference, which may be below zero
	if system > 0 {
		share = max(0, user) / (max(0, user) + system)
	}
	out := record.CPUPerRequest{UserUS: share * total.Value, SystemUS: (1 - share) * total.Value, LowUS: total.Value, HighUS: total.Value}
	if total.Defined() {
		out.LowUS, out.HighUS = total.Low, total.High
		if part != record.PartUnattributed {
			out.LowUS = max(0, total.Low)
		}
	}
	out.Whole = o.Run.Header.Observed == record.ObservedKubelet
	return out, true
}

// merge adds h to sum, which it creates if it is nil.
func merge(sum, h *hdrhistogram.Histogram) *hdrhistogram.Histogram {
	switch {
	case h == nil:
		return sum
	case sum == nil:
		return h.Clone()
	}
	sum.Merge(h)
	return sum
}

// latencyOf summarizes a distribution, and names the percentiles that lie among failed
// requests. Those have no value, nor have percentiles with too few requests beyond
// them.
func latencyOf(h *hdrhistogram.Histogram, c stat.Counts) (l record.Latency, notReached []string) {
	if h != nil && h.TotalCount() > 0 {
		l = record.Latency{Min: float64(h.Min()) * NsToUS, Mean: c.Mean()}
		l.Set(1, float64(h.Max())*NsToUS)
	}
	for _, q := range record.Percentiles() {
		if c.Total() < stat.Takes(float64(q)) {
			continue
		}
		if v := c.Quantile(float64(q)); math.IsInf(v, 1) {
			notReached = append(notReached, q.Name())
		} else {
			l.Set(q, v)
		}
	}
	return l, notReached
}

// Curves returns a distribution by percentile, and as shares of requests.
func Curves(c stat.Counts) (percentiles, cdf []record.CurvePoint) {
	return curve(c.PercentileCurve(percentileSteps)), curve(c.CDF(cdfPoints))
}

func curve(points []stat.Point) []record.CurvePoint {
	out := make([]record.CurvePoint, len(points))
	for i, p := range points {
		out[i] = record.CurvePoint{X: p.X, Y: p.Y}
	}
	return out
}

// schedule describes how the generator kept its schedule in trials; nil if no
// trial says.
func schedule(trials []*record.Trial) *record.ScheduleSummary {
	var distance, achieved, correlation, effective []float64
	for _, t := range trials {
		if t.Load == nil || t.Load.Schedule == nil {
			continue
		}
		distance, achieved = append(distance, t.Load.Schedule.Distance), append(achieved, t.Load.Schedule.AchievedRatio)
		if rho := t.Load.Autocorrelation; rho != nil {
			correlation, effective = append(correlation, *rho), append(effective, t.Load.EffectiveRequests)
		}
	}
	if len(distance) == 0 {
		return nil
	}
	out := &record.ScheduleSummary{Distance: stat.Median(distance), AchievedRatio: stat.Median(achieved)}
	if len(correlation) > 0 {
		out.Autocorrelation, out.EffectiveRequests = stat.Median(correlation), stat.Median(effective)
	}
	return out
}

// samples returns what each cell measured, by unit and turn.
func (o *Observations) samples(measures []Measure) []record.Sample {
	var out []record.Sample
	for cell := range o.Plan.Cells {
		for _, blocks := range o.Units {
			turns := map[int][]*record.Trial{}
			for _, block := range blocks {
				for _, t := range o.trials[cell][block] {
					turns[t.Repeat] = append(turns[t.Repeat], t)
				}
			}
			for turn := range 2 {
				if s := o.sample(cell, turns[turn], measures); len(s.Values) > 0 {
					out = append(out, s)
				}
			}
		}
	}
	return out
}

// sample returns what some trials of a cell measured together: quantiles over all their
// requests, means of the rest. It omits what was not measured or has too few observations.
func (o *Observations) sample(cell int, trials []*record.Trial, measures []Measure) record.Sample {
	s := record.Sample{Cell: o.Short(cell)}
	var latencies []stat.Counts
	for _, t := range trials {
		latencies = append(latencies, o.Latency(t))
	}
	all := stat.Merge(latencies...)
	s.Requests = all.Total()
	for _, m := range measures {
		v := math.NaN()
		switch {
		case m.Quantile == 0:
			v = meanOf(trials, func(t *record.Trial) float64 { return m.Of(o, t) })
		case s.Requests >= int64(record.Quantile(m.Quantile).Needs()):
			v = all.Quantile(m.Quantile)
		}
		if !math.IsNaN(v) {
			s.Values = append(s.Values, record.SampleValue{Name: m.Name, Unit: m.Unit, Value: v})
		}
	}
	return s
}

// leftOut returns the run's invalid trials.
func (o *Observations) leftOut() []record.LeftOut {
	var out []record.LeftOut
	for i := range o.Run.Trials {
		t := &o.Run.Trials[i]
		if t.Validity.Valid {
			continue
		}
		left := record.LeftOut{Trial: t.ID, Cell: o.Plan.Short(t.Cell)}
		for _, c := range t.Validity.Checks {
			if !c.OK {
				left.Checks = append(left.Checks, c.Name)
			}
		}
		out = append(out, left)
	}
	return out
}
