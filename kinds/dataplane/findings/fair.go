package findings

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/note"
	judged "github.com/meshtrial/meshtrial/kinds/dataplane/verdict"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/verdict"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// unfair returns the checks that trials fail relative to the others of their run, by trial.
//
// A disturbance adds about the same to the latency of every cell, and the same to the generator's
// lag. Relative to a trial's own latency it would invalidate trials of cheap cells and be accepted
// in those of expensive ones, where it stays in the figures: in a simulation with noisy neighbours
// that alone causes an overhead of 13%. So the bound is the same for all cells that are compared, a
// share of the usual latency of their baseline.
func unfair(o *analysis.Observations) map[string][]record.Check {
	l := verdict.Limits(o.Run.Header.Rules.Limits)
	out := map[string][]record.Check{}
	for _, block := range o.Blocks {
		// A search's next choice depends on the trials so far, whose validity must not change as
		// more arrive. So each is judged by what was known in its block.
		drift, latency := everyBlock, everyBlock
		if len(o.Plan.Study.Search) > 0 {
			drift, latency = block-1, block // a block's baseline runs before the cells compared with it
		}
		common, _ := commonDrift(o, drift)
		for cell := range o.Plan.Cells {
			usual := usualLatency(o, cell, latency)
			for _, t := range o.ValidIn(cell, block) {
				var s verdict.Sheet
				checkLag(&s, t, usual, l)
				checkSteady(&s, t, usual, common, l)
				if v := s.Validity(); len(v.Checks) > 0 {
					out[t.ID] = v.Checks
				}
			}
		}
	}
	return out
}

// everyBlock is the last block for a caller that wants all.
const everyBlock = math.MaxInt

// usualLatency returns the usual median latency of a cell's baseline, or of the cell itself without
// one, up to a block: the median over its trials, whatever else they failed, in microseconds; NaN
// if there are none.
func usualLatency(o *analysis.Observations, cell, last int) float64 {
	if base, ok := o.Baseline(cell); ok {
		cell = base
	}
	var p50 []float64
	for _, block := range o.Blocks {
		if block > last {
			break
		}
		for _, t := range o.Tried[cell][block] {
			if t.Load != nil && t.Load.Completed > 0 && t.Load.Intended.At(0.5) > 0 {
				p50 = append(p50, t.Load.Intended.At(0.5))
			}
		}
	}
	if len(p50) == 0 {
		return math.NaN()
	}
	return stat.Median(p50)
}

// checkLag checks whether the generator kept its schedule, relative to the usual latency of
// requests in the baseline.
func checkLag(s *verdict.Sheet, t *record.Trial, usual float64, l verdict.Limits) {
	if t.Load == nil || t.Load.Rate.IsMax() || math.IsNaN(usual) {
		return
	}
	most := l.Of(judged.ScheduleLag) * usual
	if t.Cell[study.FactorArrival] == study.ArrivalBurst {
		// The middle request of a burst waits for those sent before it: they leave one by one, from
		// any generator.
		connections, _ := strconv.Atoi(t.Cell[study.FactorConnections])
		most += l.Of(judged.SendTime) * float64(connections) / 2
	}
	s.Check(judged.ScheduleLag.Name, t.Load.Lag.At(0.5) <= most,
		"the generator was %.0f us late at the median, limit %.0f, compared with the baseline's usual median latency of %.0f us", t.Load.Lag.At(0.5), most, usual)
}

// checkSteady checks whether latency fell within the window, beyond the common drift: such a window
// began before a disturbance or a startup was over. Rising latency may be a growing queue, which is
// a result.
func checkSteady(s *verdict.Sheet, t *record.Trial, usual, common float64, l verdict.Limits) {
	if t.Drift == nil || math.IsNaN(usual) {
		return
	}
	d := driftOf(t)
	expected := common * driftLevel(d)
	s.Check(judged.Steady.Name, d.Change() >= expected || d.Beyond(expected) <= l.Of(judged.Steady)*usual,
		"median latency changed from %.0f us in the window's first half to %.0f in its second (±%.0f), compared with the baseline's usual %.0f us: it was not yet steady", d.First, d.Second, 2*d.SE, usual)
}

// driftOf returns the drift of a trial, which must have one.
func driftOf(t *record.Trial) stat.Drift {
	return stat.Drift{First: t.Drift.FirstUS, Second: t.Drift.SecondUS, SE: t.Drift.ErrorUS, N: t.Drift.Intervals}
}

func driftLevel(d stat.Drift) float64 { return (d.First + d.Second) / 2 }

// commonDrift returns how far latency moves within the windows of the run's trials up to a block,
// as a share of its level: the median over trials, and its standard error. It returns 0 for fewer
// than three trials.
func commonDrift(o *analysis.Observations, last int) (share, se float64) {
	var shares []float64
	for i := range o.Run.Trials {
		if t := &o.Run.Trials[i]; t.Drift != nil && t.Block <= last {
			if d := driftOf(t); driftLevel(d) > 0 {
				shares = append(shares, d.Change()/driftLevel(d))
			}
		}
	}
	if len(shares) < 3 {
		return 0, math.Inf(1)
	}
	share = stat.Median(shares)
	away := make([]float64, len(shares))
	for i, v := range shares {
		away[i] = math.Abs(v - share)
	}
	// For a normal distribution the median's standard error is 1.253 times the mean's, and the
	// standard deviation 1.483 times the median distance.
	return share, 1.253 * 1.483 * stat.Median(away) / math.Sqrt(float64(len(shares)))
}

// unsteadyWindows warns of a drift that most windows share: then no trial is an exception, and all
// figures include some startup effect.
func unsteadyWindows(o *analysis.Observations) []note.Note {
	share, se := commonDrift(o, everyBlock)
	limit := verdict.Limits(o.Run.Header.Rules.Limits).Of(judged.SteadyCommon)
	if !(math.Abs(share)-2*se > limit) {
		return nil
	}
	moves := noteWindowsFall
	if share > 0 {
		moves = noteWindowsRise
	}
	return []note.Note{moves.Of(words.Percent(math.Abs(share)), words.Percent(2*se))}
}

// unsteady lists the parts without a steady rate of use: they do not follow the requests.
var unsteady = []string{record.PartControl, record.PartIdleNode, record.PartNodeAgent}

// sampledCPU states the precision of a run's CPU figures from kubelets: the usual error of a
// figure, the largest error, and an upper bound. Intervals include the error only to the extent
// that it varies between blocks.
func sampledCPU(o *analysis.Observations) []note.Note {
	if o.Run.Header.Observed != record.ObservedKubelet {
		return nil
	}
	var shares []float64
	bound, gap := 0.0, 0.0
	for i := range o.Run.Trials {
		t := &o.Run.Trials[i]
		if !t.Validity.Valid {
			continue
		}
		for part, s := range t.Sampled {
			used := t.CPU[part].TotalS()
			if slices.Contains(unsteady, part) || used <= 0 {
				continue
			}
			shares = append(shares, s.ErrorS/used)
			bound, gap = max(bound, (s.HighS-used)/used, (used-s.LowS)/used), max(gap, s.GapS)
		}
	}
	if len(shares) == 0 {
		return []note.Note{noteKubelets.Of(nil, nil, nil, nil)}
	}
	percent := func(v float64) string {
		if v >= 0.1 {
			return words.Percent(v)
		}
		return fmt.Sprintf("%.2g%%", v*100)
	}
	return []note.Note{noteKubelets.Of(gap, percent(stat.Median(shares)), percent(slices.Max(shares)), percent(bound))}
}
