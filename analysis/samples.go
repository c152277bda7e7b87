package analysis

import (
	"math"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
)

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
