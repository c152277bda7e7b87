package findings

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/drive/graph"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/study"
)

// scenarioMeasures lists the measures of a resilience study over a whole trial, in report order.
func scenarioMeasures(s *study.Study) []analysis.Measure {
	return slices.Concat(ledgerMeasures(), analysis.LatencyMeasures(s), scenarioCPU(s), partMeasures(s, resilience.FamilyUseMemory, memoryOf, leftAtEnd), planeMeasures(), scenarioMoney(s))
}

// ofScenario returns a measure of a trial's results; NaN if unknown.
func ofScenario(of func(s *trialScenario) float64) func(*analysis.Observations, *record.Trial) float64 {
	return func(o *analysis.Observations, t *record.Trial) float64 {
		s := scenarioOfTrial(o, t)
		if s.summary == nil {
			return math.NaN()
		}
		return of(s)
	}
}

func ledgerMeasures() []analysis.Measure {
	one := func(name string, of func(s *trialScenario) float64) analysis.Measure {
		return analysis.MeasureOf(name, ofScenario(of))
	}
	return []analysis.Measure{
		one("error_share", func(s *trialScenario) float64 { return s.total.ErrorShare }),
		one("failed_requests", func(s *trialScenario) float64 { return float64(s.total.Failed + s.total.Unfinished) }),
		one("attempt_ratio", func(s *trialScenario) float64 { return analysis.Positive(s.account.Amplification()) }),
		one("hidden_failures", func(s *trialScenario) float64 { return float64(s.total.Hidden) }),
		one("phantom_attempts", func(s *trialScenario) float64 {
			if s.trial.Scenario.Ledger != "" {
				return math.NaN() // their sender does not log
			}
			return float64(s.total.PhantomAttempts)
		}),
		one("longest_failing_run", func(s *trialScenario) float64 { return s.total.LongestFailUS }),
		inEach("time_to_detect", math.Inf(1), func(s *trialScenario) float64 {
			return longest(s, func(one timed) *float64 { return one.DetectUS })
		}, "clients saw no failure"),
		inEach("time_to_recover", 0, longestRecovery, "requests still failed when the next step began or the timeline ended"),
		inEach("time_to_eject", math.Inf(1), func(s *trialScenario) float64 {
			return longest(s, func(one timed) *float64 { return one.EjectUS })
		}, "no proxy ejected an endpoint"),
		inEach(resilience.FindingShift, 0, func(s *trialScenario) float64 { return longest(s, s.shifted) }, "callers still called the zone when the step ended"),
		one(resilience.FindingCrossZone, crossZone),
		one("time_to_move", func(s *trialScenario) float64 { return longest(s, moved) }),
		one(resilience.FindingDropped, dropped),
		one("unreconciled_requests", func(s *trialScenario) float64 { return float64(s.total.Unreconciled) }).Warning(unreconciledExample),
	}
}

// planeMeasures counts the differences between control planes of two versions.
func planeMeasures() []analysis.Measure {
	return []analysis.Measure{analysis.MeasureOf(resilience.FindingConfigDifferences, ofScenario(func(s *trialScenario) float64 {
		n := math.NaN()
		for _, p := range s.trial.Scenario.Planes {
			if p.Compared != nil && !(n >= float64(p.Compared.Differing)) {
				n = float64(p.Compared.Differing)
			}
		}
		return n
	}))}
}

// longest returns the longest time over steps; NaN if no step has one.
func longest(s *trialScenario, of func(one timed) *float64) float64 {
	most := math.NaN()
	for _, one := range s.steps {
		if us := of(one); us != nil && !(most >= *us) {
			most = *us
		}
	}
	return most
}

// moved returns how long a step took to move the namespace, until proved; nil for other steps.
func moved(one timed) *float64 {
	if one.Op != fault.MoveKind || one.ProvenS == 0 {
		return nil
	}
	us := (one.ProvenS - one.BeginS) * 1e6
	return &us
}

// longestRecovery returns the longest recovery time over steps. It is infinite if requests still
// failed after one, and NaN if none failed after any.
func longestRecovery(s *trialScenario) float64 {
	if slices.ContainsFunc(s.steps, func(one timed) bool { return one.StillFailing }) {
		return math.Inf(1)
	}
	return longest(s, func(one timed) *float64 { return one.RecoverUS })
}

// inEach returns a measure of a time that each trial of a cell must reach; otherwise the mean would
// cover only the trials that did. A trial without a time counts as without if other trials of the
// cell have one. An infinite without means never, which words states.
func inEach(name string, without float64, of func(s *trialScenario) float64, words string) analysis.Measure {
	own := ofScenario(of)
	return analysis.MeasureOf(name, func(o *analysis.Observations, t *record.Trial) float64 {
		v := own(o, t)
		cell, ok := o.Plan.Index(t.Cell)
		if !math.IsNaN(v) || !ok || scenarioOfTrial(o, t).summary == nil {
			return v
		}
		if slices.ContainsFunc(o.Valid(cell), func(other *record.Trial) bool { return !math.IsNaN(own(o, other)) }) {
			return without
		}
		return v
	}).Reaching(words)
}

// unreconciledExample names one unreconciled request.
func unreconciledExample(o *analysis.Observations, cell int) []note.Note {
	n, trials := int64(0), 0
	var example any
	for _, t := range o.Valid(cell) {
		s := scenarioOfTrial(o, t)
		if s.summary == nil || s.total.Unreconciled == 0 {
			continue
		}
		n, trials = n+s.total.Unreconciled, trials+1
		if example == nil && len(s.summary.Ledger.Unreconciled) > 0 {
			r := s.summary.Ledger.Unreconciled[0]
			example = fmt.Sprintf("%s at %.2f s of trial %s: %s", r.ID, r.AtS, t.ID, strings.Join(r.Lacks, "; "))
		}
	}
	if n == 0 {
		return nil
	}
	return []note.Note{noteUnreconciled.Of(n, trials, example)}
}

// proxySuffix ends the record names of parts that are a service's proxies.
const proxySuffix = ".proxy"

// A usage returns a part's CPU in millicores or memory in bytes from a trial's record, NaN if it
// has none.
type usage func(s *trialScenario, part string) float64

func cpuOf(s *trialScenario, part string) float64 {
	cpu, ok := s.trial.Scenario.CPU[part]
	if !ok || s.length <= 0 || s.trial.Scenario.CountedS <= 0 {
		return math.NaN()
	}
	return cpu.TotalS() / s.trial.Scenario.CountedS * 1000
}

func memoryOf(s *trialScenario, part string) float64 {
	bytes, ok := s.trial.Scenario.Memory[part]
	if !ok {
		return math.NaN()
	}
	return analysis.Positive(float64(bytes))
}

func scenarioCPU(s *study.Study) []analysis.Measure {
	out := partMeasures(s, resilience.FamilyUseCPU, cpuOf, lived)
	machine := slices.IndexFunc(out, func(m analysis.Measure) bool { return m.Name == "cpu_"+record.PartMachine })
	perRequest := analysis.MeasureOf(resilience.FindingProxyRequest, ofScenario(func(s *trialScenario) float64 {
		total, passes, _ := proxyUse(s)
		return total * 1e6 / passes
	})).Warning(sharedProxies)
	return slices.Insert(out, machine, perRequest)
}

// partMeasures returns the use of each part of a family. Use by proxies next to pods is the mean
// over the pods, with their weights; use by node proxies is divided by their number.
func partMeasures(s *study.Study, family string, use usage, weight podWeight) []analysis.Measure {
	return analysis.OfFamily(s, family, func(d finding.Def) analysis.Measure {
		m := analysis.MeasureOf(d.Name, ofScenario(func(s *trialScenario) float64 {
			switch d.Part {
			case record.PartNode:
				return use(s, d.Part) / float64(s.trial.Scenario.NodeProxies)
			case record.PartNodeAgent:
				return use(s, d.Part) / agentsOf(s)
			}
			if is, ok := proxyRoles[d.Part]; ok {
				return perProxy(s, is, use, weight)
			}
			return use(s, d.Part)
		}))
		if d.Part == record.PartNode {
			m = m.Warning(sharedProxies)
		}
		return m
	})
}

// agentsOf returns the number of node agents in a trial, NaN for none.
func agentsOf(s *trialScenario) float64 { return analysis.Positive(float64(s.trial.NodeAgents)) }

// sharedProxies notes what else figures of node proxies include.
func sharedProxies(o *analysis.Observations, cell int) []note.Note {
	if !slices.ContainsFunc(o.Valid(cell), func(t *record.Trial) bool { return t.Scenario.NodeProxies > 0 }) {
		return nil
	}
	return []note.Note{analysis.SharedProxy.Of()}
}

// A podWeight returns the weight of a pod when use is divided among pods, and false if its proxy
// has no share.
type podWeight func(s *trialScenario, p record.ScenarioPod) (float64, bool)

// perProxy returns the mean use of one proxy of the selected services, or of the clients; NaN without
// proxies, or if the use of a service's proxies is unknown.
func perProxy(s *trialScenario, is func(*resilience.Scenario, graph.Service) bool, use usage, weight podWeight) float64 {
	c, total, n := resilience.Of(s.study), 0.0, 0.0
	seen := map[string]bool{}
	for _, p := range s.trial.Scenario.Pods {
		one, _ := c.Graph.Service(p.Service)
		one.Name = p.Service // clients are not in the graph
		w, counts := weight(s, p)
		if !p.Sidecar || !is(c, one) || !counts {
			continue
		}
		n += w
		if !seen[p.Service] {
			seen[p.Service] = true
			total += use(s, p.Service+proxySuffix)
		}
	}
	if n == 0 {
		return math.NaN()
	}
	return total / n
}

// lived returns the share of the timeline for which a pod existed.
func lived(s *trialScenario, p record.ScenarioPod) (float64, bool) {
	zero := s.trial.Scenario.StartNS
	from, to := max(0, p.ReadyNS-zero), s.length
	if left(p) {
		to = min(to, p.GoneNS-zero)
	}
	return float64(max(0, to-from)) / float64(s.length), true
}

// leftAtEnd counts a pod that exists at the end of the timeline.
func leftAtEnd(_ *trialScenario, p record.ScenarioPod) (float64, bool) {
	return 1, !left(p)
}
