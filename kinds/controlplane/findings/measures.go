package findings

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// controlMeasures lists the measures of a control-plane study, in report order.
func controlMeasures(s *study.Study) []analysis.Measure {
	return slices.Concat(convergenceMeasures(s), gatewayMeasures(s), amplificationMeasures(), configMeasures(), sidecarMeasures(), costMeasures(), ztunnelMeasures(s), stalenessMeasures(controlplane.Of(s).Traffic != nil), recoveryMeasures())
}

// ofControl returns a measure of a trial's counts.
func ofControl(of func(c *record.Control) float64) func(*analysis.Observations, *record.Trial) float64 {
	return func(_ *analysis.Observations, t *record.Trial) float64 { return of(t.Control) }
}

// ofPart returns a measure of a part of a trial's counts; NaN if the trial has none.
func ofPart[P any](part func(c *record.Control) *P, of func(*P) float64) func(*analysis.Observations, *record.Trial) float64 {
	return ofControl(func(c *record.Control) float64 {
		if part(c) == nil {
			return math.NaN()
		}
		return of(part(c))
	})
}

// ratio returns a quotient, NaN if nothing can be divided by.
func ratio(part, whole float64) float64 {
	if !(whole > 0) {
		return math.NaN()
	}
	return part / whole
}

// orNever returns a time, infinite if it never came.
func orNever(us *int64) float64 {
	if us == nil {
		return math.Inf(1)
	}
	return float64(*us)
}

// noneLeft is the share of lost pairs above which no change has reached any proxy.
const noneLeft = 1 - 1e-9

// overPairs returns a percentile of the acknowledgement times over the change-proxy pairs of a
// group.
func overPairs(d finding.Def, of group) analysis.Measure {
	q := float64(d.At)
	m := analysis.MeasureOf(d.Name, func(o *analysis.Observations, t *record.Trial) float64 {
		return reached(of.of(converged(o, t)).acked, q)
	})
	m.Beyond = math.Max(1-q, 1e-9) // any, for the maximum
	m.MinCount, m.Counted = d.At.Needs(), "change-proxy pairs"
	m.Unguarded = func(o *analysis.Observations, t *record.Trial) float64 {
		return of.of(converged(o, t)).acked.Quantile(q)
	}
	m.Partial = survivors(m.Beyond, of)
	m.Warn = either(m.Partial, fewChanges(m.MinCount, of))
	return m
}

// ofConvergence returns a measure of how a trial's changes converged.
func ofConvergence(d finding.Def, of func(c *convergence) float64) analysis.Measure {
	return analysis.MeasureOf(d.Name, func(o *analysis.Observations, t *record.Trial) float64 { return of(converged(o, t)) })
}

func convergenceMeasures(s *study.Study) []analysis.Measure {
	out := analysis.OfFamily(s, controlplane.FamilyConvergence, func(d finding.Def) analysis.Measure { return overPairs(d, butZtunnels) })
	for _, edge := range edges {
		out = append(out, analysis.OfFamily(s, controlplane.FamilyConvergence+"_"+edge.name, func(d finding.Def) analysis.Measure {
			m := ofConvergence(d, func(c *convergence) float64 { return overChanges(edge.of(c), c.lacking, float64(d.At)) })
			m.Beyond = noneLeft // fewer missing ones are part of the figure: see overChanges
			return m.Reaching("too many changes were never acknowledged by " + edge.who)
		})...)
	}
	// Only over pairs that had the change, like convergence.
	alone := func(of func(c *convergence) stat.Counts) func(finding.Def) analysis.Measure {
		return func(d finding.Def) analysis.Measure {
			m := ofConvergence(d, func(c *convergence) float64 { return reached(of(c), float64(d.At)) })
			m.Beyond = math.Max(1-float64(d.At), 1e-9)
			m.Partial = survivors(m.Beyond, butZtunnels)
			m.Warn = m.Partial
			return m
		}
	}
	out = append(out, analysis.OfFamily(s, controlplane.FamilyReceived, alone(func(c *convergence) stat.Counts { return c.received }))...)
	out = append(out, analysis.OfFamily(s, controlplane.FamilyApplied, alone(func(c *convergence) stat.Counts { return c.applied }))...)
	out = append(out,
		analysis.MeasureOf("reported_convergence_p99", func(_ *analysis.Observations, t *record.Trial) float64 { return reported(t) }).Warning(firstBucket).Stepping(bucketWidth),
		analysis.MeasureOf("hidden_convergence_p99", func(o *analysis.Observations, t *record.Trial) float64 {
			return reached(converged(o, t).acked, 0.99) - reported(t)
		}).Warning(survivors(0.01, butZtunnels)).Stepping(bucketWidth))
	for _, stage := range record.Stages() {
		out = append(out, analysis.MeasureOf("stage_"+stage, ofControl(func(c *record.Control) float64 {
			i := slices.IndexFunc(c.Stages, func(s record.Stage) bool { return s.Name == stage })
			if i < 0 {
				return math.NaN()
			}
			return c.Stages[i].MeanUS
		})).Warning(stageApart(stage)))
	}
	out = append(out,
		analysis.MeasureOf("stage_residual", func(o *analysis.Observations, t *record.Trial) float64 { rest, _ := residual(o, t); return rest }).Warning(largeResidual),
		analysis.MeasureOf("stage_residual_share", ofPart(func(c *record.Control) *record.Unexplained { return c.Unexplained },
			func(u *record.Unexplained) float64 { return ratio(float64(u.Beyond), float64(u.Pairs)) })).Warning(unexplainedPairs))
	// A trial without events says nothing about missed changes.
	counted := func(of func(c *convergence) int) func(o *analysis.Observations, t *record.Trial) float64 {
		return func(o *analysis.Observations, t *record.Trial) float64 {
			if len(o.Events[t.ID]) == 0 {
				return math.NaN()
			}
			return float64(of(converged(o, t)))
		}
	}
	return append(out,
		analysis.MeasureOf("missed", counted((*convergence).allMissed)).Warning(missedExample),
		analysis.MeasureOf("unacked", counted((*convergence).allUnacked)).Warning(unackedShare),
		analysis.MeasureOf("failed_changes", counted(func(c *convergence) int { return c.failed })).Warning(failedExample))
}

// reported returns istiod's own 99th percentile of convergence, in microseconds.
func reported(t *record.Trial) float64 {
	p99, _, _ := reportedP99(t)
	return p99 * 1e6
}

// bucketWidth returns the width of the widest bucket of istiod's histogram that holds the 99th
// percentile of a cell's trials, in microseconds.
func bucketWidth(o *analysis.Observations, cell int) (widest float64) {
	for _, t := range o.Valid(cell) {
		if p99, from, upto := reportedP99(t); stat.Finite(p99) {
			widest = max(widest, 1e6*(upto-from))
		}
	}
	return widest
}

// firstBucket warns of figures that are mere interpolation within a histogram's first bucket.
func firstBucket(o *analysis.Observations, cell int) []note.Note {
	n, upto := inFirstBucket(o.Valid(cell))
	if n == 0 {
		return nil
	}
	return []note.Note{FirstBucket.Of(n, len(o.Valid(cell)), words.Quantity(upto*1e6, finding.UnitMicroseconds))}
}

// inFirstBucket counts the trials whose 99th percentile by istiod's histogram falls into its first
// bucket, and returns the bucket's end in seconds.
func inFirstBucket(trials []*record.Trial) (n int, upto float64) {
	for _, t := range trials {
		if p99, from, first := reportedP99(t); stat.Finite(p99) && from == 0 {
			n, upto = n+1, first
		}
	}
	return n, upto
}

// missedExample names the changes that proxies never saw.
func missedExample(o *analysis.Observations, cell int) []note.Note {
	pairs, needed, trials := 0, 0, 0
	example := ""
	for _, t := range o.Valid(cell) {
		c := converged(o, t)
		missed := c.allMissed()
		needed += missed + c.allPairs()
		if missed == 0 {
			continue
		}
		pairs, trials = pairs+missed, trials+1
		for _, of := range []group{butZtunnels, ztunnelsOnly} {
			if e := of.of(c).example; e != nil && example == "" {
				example = fmt.Sprintf("trial %s, change %d (%s %s): %s %s", t.ID, e.Change, e.Op, e.Object, of, someOf(e.Missed))
			}
		}
	}
	if pairs == 0 {
		return nil
	}
	return []note.Note{noteMissed.Of(pairs, needed, trials, example)}
}

// unackedShare states the number of pairs without an acknowledgement, which convergence leaves out.
func unackedShare(o *analysis.Observations, cell int) []note.Note {
	pairs, unacked := 0, 0
	for _, t := range o.Valid(cell) {
		c := converged(o, t)
		pairs, unacked = pairs+c.allPairs(), unacked+c.allUnacked()
	}
	if unacked == 0 {
		return nil
	}
	return []note.Note{noteUnacked.Of(unacked, pairs)}
}

// someOf lists the first few of many proxies.
func someOf(proxies []int32) string {
	const most = 5
	var out []string
	for _, p := range proxies[:min(len(proxies), most)] {
		out = append(out, fmt.Sprint(p))
	}
	if len(proxies) > most {
		out = append(out, fmt.Sprintf("and %d more", len(proxies)-most))
	}
	return strings.Join(out, ", ")
}

// failedExample explains why the API server rejected changes.
func failedExample(o *analysis.Observations, cell int) []note.Note {
	n := 0
	example := ""
	for _, t := range o.Valid(cell) {
		for _, e := range o.Events[t.ID] {
			if e.Error == "" {
				continue
			}
			if n++; example == "" {
				example = fmt.Sprintf("trial %s, change %d (%s %s): %s", t.ID, e.Change, e.Op, e.Object, e.Error)
			}
		}
	}
	if n == 0 {
		return nil
	}
	return []note.Note{noteRefused.Of(n, example)}
}

// perChange divides by the number of committed changes.
func perChange(of func(c *record.Control) float64) func(*analysis.Observations, *record.Trial) float64 {
	return ofControl(func(c *record.Control) float64 { return ratio(of(c), float64(c.Committed)) })
}

func amplificationMeasures() []analysis.Measure {
	out := []analysis.Measure{analysis.MeasureOf("pushes", ofControl(func(c *record.Control) float64 { return pushes(c.Istiod, "") }))}
	for _, kind := range controlplane.XDSTypes() {
		out = append(out, analysis.MeasureOf("pushes_"+kind, ofControl(func(c *record.Control) float64 { return pushes(c.Istiod, kind) })))
	}
	return append(out,
		analysis.MeasureOf("pushes_per_change", perChange(func(c *record.Control) float64 { return pushes(c.Istiod, "") })),
		analysis.MeasureOf("pushed_bytes_per_change", perChange(func(c *record.Control) float64 { return pushedBytes(c.Istiod) })),
		analysis.MeasureOf("push_bytes_per_change", perChange(func(c *record.Control) float64 {
			if c.Proxies+c.Gateways+c.Ztunnels == 0 {
				return math.NaN() // what real proxies alone receive is not counted
			}
			return float64(wireSum(c.Wire).Bytes)
		})),
		analysis.MeasureOf("identical_share", ofControl(func(c *record.Control) float64 {
			w := wireSum(c.Wire)
			return ratio(float64(w.IdenticalBytes), float64(w.Bytes))
		})))
}

// wireSum returns the bytes received over all types.
func wireSum(by map[string]record.Wire) (sum record.Wire) {
	for _, w := range by {
		sum = sum.Plus(w)
	}
	return sum
}

func configMeasures() []analysis.Measure {
	var out []analysis.Measure
	add := func(name string, of func(c *record.Control) map[string]int64) {
		out = append(out, analysis.MeasureOf(name, ofControl(func(c *record.Control) float64 {
			return analysis.Positive(float64(bytesIn(of(c))))
		})))
		for _, kind := range controlplane.XDSTypes() {
			out = append(out, analysis.MeasureOf(name+"_"+kind, ofControl(func(c *record.Control) float64 {
				return analysis.Positive(float64(of(c)[kind]))
			})))
		}
	}
	add("config_bytes", func(c *record.Control) map[string]int64 { return c.Config })
	add("scope_config_bytes", func(c *record.Control) map[string]int64 { return c.ScopeConfig })
	return append(out, joinMeasures()...)
}

// bytesIn sums the sizes of all types.
func bytesIn(sizes map[string]int64) (sum int64) {
	for _, bytes := range sizes {
		sum += bytes
	}
	return sum
}

// istiodMemory returns istiod's memory in bytes at the end of the window.
func istiodMemory(t *record.Trial) float64 {
	m := t.Memory[record.PartControl]
	return analysis.Positive(float64(cmp.Or(m.PSSBytes, m.CgroupBytes)))
}

// stalenessMeasures returns measures of stale endpoints: which proxies held them and, if real
// requests run, what the requests met.
func stalenessMeasures(traffic bool) []analysis.Measure {
	out := []analysis.Measure{analysis.MeasureOf("stale_proxy_seconds_per_change", perChange(func(c *record.Control) float64 {
		if c.Ztunnels > 0 && c.Proxies+c.Gateways+c.RealProxies == 0 {
			return math.NaN() // not counted for ztunnels
		}
		return c.StaleProxySeconds
	}))}
	if traffic {
		out = append(out, trafficMeasures()...)
	}
	return out
}
