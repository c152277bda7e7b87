package findings

import (
	"math"
	"slices"
	"sort"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// convergence summarizes a trial's events: how long each change took to reach each proxy except
// ztunnels, in microseconds after its commit.
type convergence struct {
	// ztunnels is the same for ztunnels.
	ztunnels *convergence

	acked    stat.Counts // over all change-proxy pairs
	received stat.Counts
	applied  stat.Counts // of real Envoys only

	// first, median and last have an entry for each change that any proxy acknowledged: when the
	// first, half, and all of the proxies that needed it had acknowledged it. It is infinite if
	// half of them, or all, never did. lacking counts the changes that no proxy acknowledged.
	first, median, last []float64
	lacking             int
	// changes lists the same per change, with the time of the commit.
	changes []changeTimes

	failed  int // changes that the API server rejected
	missed  int // change-proxy pairs in which the proxy needed the change and never got it
	pairs   int // in which the proxy had it
	unacked int // of pairs, never acknowledged
	// superseded counts pairs in which a later change's configuration arrived together with this
	// one's.
	superseded int
	// example describes the first miss.
	example *record.Event
}

type changeTimes struct {
	committedNS         int64
	kind                string
	first, median, last float64 // as in convergence; NaN if no proxy had it
	proxies             int
}

// converged summarizes a trial's events, once.
func converged(o *analysis.Observations, t *record.Trial) *convergence {
	all := o.Own.(map[string]*convergence)
	if c, ok := all[t.ID]; ok {
		return c
	}
	c, ztunnels := convergenceOf(o.Events[t.ID]), &convergence{}
	if t.Control.Ztunnels > 0 {
		c = convergenceOf(ofProxies(o.Events[t.ID], func(p int32) bool { return !t.Control.IsZtunnel(p) }))
		ztunnels = convergenceOf(ofProxies(o.Events[t.ID], t.Control.IsZtunnel))
	}
	c.ztunnels = ztunnels
	all[t.ID] = c
	return c
}

// ofProxies restricts events to some proxies.
func ofProxies(events []*record.Event, proxy func(int32) bool) []*record.Event {
	out := make([]*record.Event, len(events))
	for i, e := range events {
		one := *e
		one.Seen = e.Seen.Of(proxy)
		one.Missed = slices.DeleteFunc(slices.Clone(e.Missed), func(p int32) bool { return !proxy(p) })
		out[i] = &one
	}
	return out
}

// group is the set of proxies that a figure covers, as warnings name it. Ztunnels have their own
// figures and are excluded from all others.
type group string

const (
	butZtunnels  group = "proxies"
	ztunnelsOnly group = "ztunnels"
)

// of returns the convergence of a group.
func (g group) of(c *convergence) *convergence {
	if g == ztunnelsOnly {
		return c.ztunnels
	}
	return c
}

// groupOf returns the group that a measure covers.
func groupOf(m analysis.Measure) group {
	if m.Section == controlplane.SectionZtunnels {
		return ztunnelsOnly
	}
	return butZtunnels
}

// Counts of change-proxy pairs over all proxies, including ztunnels.
func (c *convergence) allPairs() int   { return c.pairs + c.ztunnels.pairs }
func (c *convergence) allMissed() int  { return c.missed + c.ztunnels.missed }
func (c *convergence) allUnacked() int { return c.unacked + c.ztunnels.unacked }

func convergenceOf(events []*record.Event) *convergence {
	c := &convergence{}
	var acked, received, applied []float64
	for _, e := range events {
		if e.Error != "" {
			c.failed++
			continue
		}
		c.superseded += e.Superseded
		if n := len(e.Missed); n > 0 {
			c.missed += n
			if c.example == nil {
				c.example = e
			}
		}
		var own []float64
		unacked := 0
		for i, at := range e.Seen.ReceivedUS {
			c.pairs++
			if i < len(e.Seen.AppliedUS) && e.Seen.AppliedUS[i] != record.Never {
				// For a real Envoy it is unknown when it received and acknowledged.
				applied = append(applied, float64(e.Seen.AppliedUS[i]))
				continue
			}
			received = append(received, float64(at))
			if i < len(e.Seen.AckedUS) && e.Seen.AckedUS[i] != record.Never {
				own = append(own, float64(e.Seen.AckedUS[i]))
			} else {
				unacked++
			}
		}
		c.unacked += unacked
		if len(own) == 0 && len(e.Missed)+unacked > 0 {
			c.lacking++
		}
		times := changeTimes{committedNS: e.CommittedNS, kind: e.Kind, first: math.NaN(), median: math.NaN(), last: math.NaN(), proxies: len(own)}
		if len(own) > 0 {
			sort.Float64s(own)
			lost := len(e.Missed) + unacked
			times.first, times.median, times.last = own[0], overChanges(own, lost, 0.5), overChanges(own, lost, 1)
			c.first = append(c.first, times.first)
			c.median = append(c.median, times.median)
			c.last = append(c.last, times.last)
			acked = append(acked, own...)
		}
		c.changes = append(c.changes, times)
	}
	c.acked, c.received, c.applied = stat.FromSamples(acked), stat.FromSamples(received), stat.FromSamples(applied)
	return c
}

// edges are the times reported per change: when the first proxy, half of the proxies, and the last
// proxy had acknowledged it.
var edges = []struct {
	name string
	of   func(c *convergence) []float64
	who  string
}{
	{"first", func(c *convergence) []float64 { return c.first }, "any proxy"},
	{"median", func(c *convergence) []float64 { return c.median }, "half of the proxies that needed them"},
	{"last", func(c *convergence) []float64 { return c.last }, "all proxies that needed them"},
}

// survivors warns of percentiles that only cover proxies that acknowledged a change, if more lack
// it than the percentile leaves beyond it.
func survivors(beyond float64, of group) func(o *analysis.Observations, cell int) []note.Note {
	return func(o *analysis.Observations, cell int) []note.Note {
		share := missedShare(o, o.Valid(cell), of)
		if share <= beyond {
			return nil
		}
		return []note.Note{noteSurvivors.Of(words.Percent(share), string(of))}
	}
}

// overChanges returns a quantile of one value per change. lacking more changes have no value; they
// rank beyond all others, as infinite values do, and a quantile that falls among them is infinite.
// The result is NaN if there are too few changes: a quantile requires as many as leave one beyond
// it, 10 for the 90th percentile, 100 for the 99th.
func overChanges(values []float64, lacking int, q float64) float64 {
	n := len(values) + lacking
	if len(values) == 0 || q < 1 && q > 0.5 && float64(n)*(1-q) < 1-1e-9 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	arrived := len(sorted)
	for arrived > 0 && math.IsInf(sorted[arrived-1], 1) {
		arrived--
	}
	if q == 0.5 && arrived == n {
		return stat.Median(sorted)
	}
	rank := max(1, int(math.Ceil(q*float64(n)-1e-9)))
	if rank > arrived {
		return math.Inf(1)
	}
	return sorted[rank-1]
}

// medianOrNaN returns the median of any number of values.
func medianOrNaN(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	return stat.Median(x)
}

// Percentiles over change-proxy pairs are reported if the pairs leave one beyond them. Pairs of one
// change are similar, since istiod debounces and computes once for all proxies, so the number of
// changes determines the precision of a percentile. It is therefore shown with that number, and
// with a warning if the changes alone would be too few.

// reached returns a quantile of change-proxy pairs, NaN if there are too few to leave one beyond
// it: the 90th percentile requires 10, the 99th 100, the 99.9th 1,000.
func reached(c stat.Counts, q float64) float64 {
	if q < 1 && q > 0.5 && float64(c.Total())*(1-q) < 1-1e-9 {
		return math.NaN()
	}
	return c.Quantile(q)
}

// fewChanges warns of percentiles over pairs with too few changes, judging by the trial that has
// the fewest.
func fewChanges(needs int, of group) func(o *analysis.Observations, cell int) []note.Note {
	return func(o *analysis.Observations, cell int) []note.Note {
		return fewChangesOf(o, o.Valid(cell), needs, of)
	}
}

func fewChangesOf(o *analysis.Observations, trials []*record.Trial, needs int, of group) []note.Note {
	pairs, changes := 0, math.MaxInt
	for _, t := range trials {
		c := of.of(converged(o, t))
		if p := int(c.acked.Total()); p > 0 && len(c.first) < changes {
			pairs, changes = p, len(c.first)
		}
	}
	if changes >= needs {
		return nil
	}
	return []note.Note{noteFewChanges.Of(pairs, changes, needs)}
}

// either combines two sources of warnings.
func either(a, b func(o *analysis.Observations, cell int) []note.Note) func(o *analysis.Observations, cell int) []note.Note {
	return func(o *analysis.Observations, cell int) []note.Note { return append(a(o, cell), b(o, cell)...) }
}

// ztunnelMeasures returns when the simulated ztunnels had changes, and how much they received.
func ztunnelMeasures(s *study.Study) []analysis.Measure {
	out := analysis.OfFamily(s, controlplane.FamilyZtunnelConvergence, func(d finding.Def) analysis.Measure { return overPairs(d, ztunnelsOnly) })
	ofSome := func(of func(c *record.Control) int64) func(c *record.Control) float64 {
		return func(c *record.Control) float64 {
			if c.Ztunnels == 0 {
				return math.NaN()
			}
			return float64(of(c))
		}
	}
	return append(out,
		analysis.MeasureOf("ztunnel_pushes_per_change", perChange(ofSome(func(c *record.Control) int64 { return wireSum(c.ZtunnelWire).Responses }))),
		analysis.MeasureOf("ztunnel_bytes_per_change", perChange(ofSome(func(c *record.Control) int64 { return wireSum(c.ZtunnelWire).Bytes }))),
		analysis.MeasureOf("ztunnel_config_bytes", ofControl(ofSome(func(c *record.Control) int64 { return bytesIn(c.ZtunnelConfig) }))))
}
