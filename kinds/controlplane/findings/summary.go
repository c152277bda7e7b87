package findings

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
)

// maxChangePoints limits the number of changes that a summary lists individually.
const maxChangePoints = 500

// controlSummary describes the valid trials of a control-plane cell: the outcome of the changes,
// and everything else that the study measures.
func controlSummary(o *analysis.Observations, trials []*record.Trial) *record.ControlSummary {
	s := &record.ControlSummary{
		Percentiles: []record.CurvePoint{}, CDF: []record.CurvePoint{}, Changes: []record.ChangePoint{}, Stages: []record.Stage{},
		Wire: map[string]record.Wire{}, ConfigBytes: map[string]int64{},
	}
	s.Trials = len(trials)
	if len(trials) == 0 {
		return s
	}
	countChanges(o, s, trials)
	measured := o.Plan.Study.Measured
	if measured(controlplane.MeasureConvergence) {
		summarizeChanges(o, s, trials)
		summarizeStages(o, s, trials)
	}
	if measured(controlplane.MeasureAmplification) {
		for _, t := range trials {
			for kind, w := range t.Control.Wire {
				s.Wire[kind] = s.Wire[kind].Plus(w)
			}
		}
	}
	if measured(controlplane.MeasureCost) {
		s.Parts = coresByPart(o, trials)
	}
	for _, t := range trials {
		c := t.Control
		s.Proxies, s.Gateways, s.Ztunnels, s.RealProxies = c.Proxies, c.Gateways, c.Ztunnels, c.RealProxies
		addInstalled(s, installedOf(c))
		s.Committed += c.Committed
		for why, n := range c.Reconnects {
			if s.Reconnects == nil {
				s.Reconnects = map[string]int64{}
			}
			s.Reconnects[why] += n
		}
		for _, name := range c.Missing {
			if !slices.Contains(s.Missing, name) {
				s.Missing = append(s.Missing, name)
			}
		}
		s.WindowSeconds += t.Window.Seconds
		if len(s.Profiles) == 0 {
			s.Profiles = c.Profiles
		}
		if measured(controlplane.MeasureStaleness) {
			addTraffic(s, c.Traffic)
		}
	}
	slices.Sort(s.Missing)
	if !measured(controlplane.MeasureConfig) {
		return s
	}
	if sizes := mediansByType(trials, func(c *record.Control) map[string]int64 { return c.Config }); sizes != nil {
		s.ConfigBytes = sizes
	}
	s.ScopeConfigBytes = mediansByType(trials, func(c *record.Control) map[string]int64 { return c.ScopeConfig })
	s.Holdings = slices.MaxFunc(trials, func(a, b *record.Trial) int { // the most kinds of proxies
		return cmp.Compare(len(a.Control.Holdings), len(b.Control.Holdings))
	}).Control.Holdings
	return s
}

// installedOf returns what a trial found installed, including the installed value of a request that
// a limit has changed.
func installedOf(c *record.Control) record.Cell {
	found := maps.Clone(c.Installed)
	for factor, was := range c.InstalledRequests {
		if is, ok := found[factor]; ok {
			found[factor] = fmt.Sprintf("%s (installed as %s, moved by the limit)", is, was)
		}
	}
	return found
}

// addInstalled adds what a trial found installed.
func addInstalled(s *record.ControlSummary, found record.Cell) {
	const then = ", then "
	if s.Installed == nil && len(found) > 0 {
		s.Installed = record.Cell{}
	}
	for factor, level := range found {
		switch was, ok := s.Installed[factor]; {
		case !ok:
			s.Installed[factor] = level
		case !slices.Contains(strings.Split(was, then), level):
			s.Installed[factor] = was + then + level
		}
	}
}

// countChanges adds the outcome of the changes.
func countChanges(o *analysis.Observations, s *record.ControlSummary, trials []*record.Trial) {
	for _, t := range trials {
		c := converged(o, t)
		s.Failed += c.failed
		s.Pairs += int64(c.pairs)
		s.Unacked += int64(c.unacked)
		s.Superseded += int64(c.superseded)
		s.Missed += int64(c.missed)
	}
}

// summarizeChanges adds how long changes took.
func summarizeChanges(o *analysis.Observations, s *record.ControlSummary, trials []*record.Trial) {
	var acked, applied []stat.Counts
	for i, t := range trials {
		c := converged(o, t)
		acked, applied = append(acked, c.acked), append(applied, c.applied)
		s.Followed += len(c.first) + c.lacking
		if i == 0 {
			s.Changes = changePoints(c)
		}
	}
	all := stat.Merge(acked...)
	s.Acknowledged = all.Total()
	s.Convergence = latencyOfCounts(all)
	if real := stat.Merge(applied...); real.Total() > 0 {
		l := latencyOfCounts(real)
		s.Applied = &l
	}
	s.Percentiles, s.CDF = analysis.Curves(all)
}

func changePoints(c *convergence) []record.ChangePoint {
	out := []record.ChangePoint{}
	for _, x := range c.changes[:min(len(c.changes), maxChangePoints)] {
		p := record.ChangePoint{AtS: float64(x.committedNS-c.changes[0].committedNS) / 1e9, Kind: x.kind, Proxies: x.proxies, FirstUS: -1, MedianUS: -1, LastUS: -1}
		for _, of := range []struct {
			to *float64
			us float64
		}{{&p.FirstUS, x.first}, {&p.MedianUS, x.median}, {&p.LastUS, x.last}} {
			if stat.Finite(of.us) {
				*of.to = of.us
			}
		}
		out = append(out, p)
	}
	return out
}

// summarizeStages adds the waterfall and istiod's own figures.
func summarizeStages(o *analysis.Observations, s *record.ControlSummary, trials []*record.Trial) {
	for _, name := range record.Stages() {
		if stage, ok := stageOver(trials, name); ok {
			s.Stages = append(s.Stages, stage)
		} else if len(s.Stages) > 0 || slices.ContainsFunc(trials, func(t *record.Trial) bool { return len(t.Control.Stages) > 0 }) {
			s.MissingStages = append(s.MissingStages, name)
		}
	}
	if mean := meanOf(trials, func(t *record.Trial) float64 { _, m := residual(o, t); return m }); stat.Finite(mean) {
		s.MeanUS = mean
	}
	if rest := meanOf(trials, func(t *record.Trial) float64 { r, _ := residual(o, t); return r }); stat.Finite(rest) {
		s.ResidualUS = rest
	}
}

// stageOver returns a stage's mean over the trials, with the sums from which a waterfall is built.
// A trial that has other stages but not this one has it in its residual and counts as zero here. It
// returns false if no trial has the stage.
func stageOver(trials []*record.Trial, name string) (out record.Stage, ok bool) {
	out.Name = name
	n, checked, apart := 0, 0, 0.0
	for _, t := range trials {
		if len(t.Control.Stages) == 0 {
			continue
		}
		n++
		for _, stage := range t.Control.Stages {
			if stage.Name != name {
				continue
			}
			ok = true
			out.MeanUS += stage.MeanUS
			out.Source = stage.Source
			if stage.CheckUS != nil {
				checked++
				apart += *stage.CheckUS - stage.MeanUS
				out.CheckSource = stage.CheckSource
			}
		}
	}
	if !ok {
		return out, false
	}
	out.MeanUS /= float64(n)
	if checked > 0 {
		check := out.MeanUS + apart/float64(checked)
		out.CheckUS = &check
	}
	return out, true
}

// latencyOfCounts summarizes plain values in microseconds. Percentiles with too few values are
// absent.
func latencyOfCounts(c stat.Counts) record.Latency {
	if c.Total() == 0 {
		return record.Latency{}
	}
	return record.Latency{Min: c.Quantile(0), Quantiles: record.QuantilesOf(func(q float64) float64 { return reached(c, q) }), Mean: c.Mean()}
}

// meanOf returns the mean over trials that have a number, NaN if none has.
func meanOf(trials []*record.Trial, number func(*record.Trial) float64) float64 {
	sum, n := 0.0, 0
	for _, t := range trials {
		if v := number(t); stat.Finite(v) {
			sum, n = sum+v, n+1
		}
	}
	return sum / float64(n)
}
