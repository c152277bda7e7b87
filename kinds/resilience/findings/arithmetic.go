package findings

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/drive/graph"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// standing is the state of the services that the steps have caused at some time.
type standing struct {
	fault.Standing
	unknown []string // steps whose effect the model does not know
}

// standingAt applies every step that is in force in a window that begins at that time.
func (s *trialScenario) standingAt(at int64) standing {
	c := resilience.Of(s.study).In(s.trial.Cell)
	levels, _ := resilience.LevelsOf(s.trial.Cell)
	now := standing{Standing: fault.NewStanding(c.Graph.WithDefaults(), levels.Rate.RPS())}
	for _, one := range s.steps {
		if one.action == nil || one.begin > at || one.end > 0 && one.end <= at || one.AppliedS == 0 {
			continue
		}
		if !one.action.Expect(&now.Standing) {
			now.unknown = append(now.unknown, one.Name)
		}
	}
	for i, one := range now.Graph.Services {
		if more := -now.Removed[one.Name]; more > 0 {
			now.Graph.Services[i].Replicas += more
			now.Removed[one.Name] = 0
		}
		share := 0.0
		for _, f := range one.Failures {
			share += f.Share
		}
		now.Failing[one.Name] = math.Min(1, now.Failing[one.Name]+share)
	}
	return now
}

// capacity returns a service's remaining capacity: the sum over its replicas, some of which may
// behave differently.
func (n *standing) capacity(flow graph.Flow, service string, gone int) graph.Capacity {
	c := flow.Capacity(service, gone)
	for _, s := range n.Some[service] {
		other, err := s.Set.In(n.Graph, service).Flow(flow.Load)
		if err != nil {
			continue
		}
		changed := other.Capacity(service, gone)
		if c.Bounded = c.Bounded && changed.Bounded; !c.Bounded || c.Replicas == 0 {
			return graph.Capacity{Service: service, Replicas: c.Replicas, RPS: c.RPS}
		}
		count := float64(min(s.Count, c.Replicas))
		c.MaxRPS += count * (changed.MaxRPS - flow.Capacity(service, gone).MaxRPS) / float64(c.Replicas)
	}
	if len(n.Some[service]) > 0 && c.Bounded && c.RPS > 0 && c.MaxRPS > 0 {
		c.Utilisation, c.Unserved = c.RPS/c.MaxRPS, math.Max(0, 1-c.MaxRPS/c.RPS)
	}
	return c
}

// istioRetries is the number of retries without a retry setting: Istio's default retry policy makes
// two more attempts.
const istioRetries = 2

// retriesOf returns the maximum number of attempts that the mesh makes after the first.
func retriesOf(cell record.Cell) (n int, why string) {
	switch level := cell[study.FactorRetries]; level {
	case study.LevelOff:
		return 0, "retries are off"
	case study.NotApplicable:
		return 0, "no mesh retries"
	case study.LevelDefault:
		if cell[study.FactorMesh] == study.MeshIstio {
			return istioRetries, fmt.Sprintf("Istio's default of %d retries", istioRetries)
		}
		return 0, "the mesh has no default retries"
	default:
		n, _ := strconv.Atoi(level)
		return n, words.Plural(n, "retry")
	}
}

// expect computes the expectation for every window and records differences beyond chance.
func (s *trialScenario) expect() {
	for i := range s.windows {
		now := s.standingAt(s.bounds[i].at)
		s.windows[i].Expected = s.expectation(now)
		s.windows[i].Surprises = surprises(s.windows[i], now.unknown)
	}
	whole := &s.total.Expected
	for i, w := range s.windows {
		if e := w.Expected; i == 0 || e.ErrorShare > whole.ErrorShare || e.ErrorShare == whole.ErrorShare && spare(e) < spare(*whole) {
			*whole = e
		}
	}
	failed := 0.0
	for _, w := range s.windows {
		failed += w.Expected.ErrorShare * float64(w.Requests)
	}
	if s.total.Requests > 0 {
		whole.ErrorShare = failed / float64(s.total.Requests)
	}
}

// spare returns the spare capacity as a share of the demand.
func spare(e record.ScenarioExpectation) float64 {
	if e.CapacityRPS <= 0 || e.DemandRPS <= 0 {
		return math.Inf(1)
	}
	return e.CapacityRPS/e.DemandRPS - 1
}

// expectation returns the calculated values while these steps are in force.
func (s *trialScenario) expectation(now standing) record.ScenarioExpectation {
	retries, _ := retriesOf(s.trial.Cell)
	e := record.ScenarioExpectation{DemandRPS: now.Rate, Attempts: graph.Amplification(1, retries)}
	entry := resilience.Of(s.study).Entry
	flow, err := now.Graph.Flow(graph.Load{Entry: entry, RPS: now.Rate})
	if err != nil {
		return e
	}
	unserved, most := 0.0, -1.0
	good := 1.0
	for _, one := range now.Graph.Services {
		f, _ := flow.Service(one.Name)
		if f.Visits == 0 {
			continue
		}
		c := now.capacity(flow, one.Name, now.Removed[one.Name])
		if c.Bounded && c.Utilisation > most {
			most = c.Utilisation
			// A broken replica serves nothing, whether it is called or not.
			e.Service, e.Replicas, e.CapacityRPS = one.Name, c.Replicas, (1-now.Broken[one.Name])*c.MaxRPS/f.Visits
		}
		unserved = math.Max(unserved, c.Unserved)
		// An attempt fails if it meets a broken endpoint or a failing worker. The next attempt is
		// independent.
		share := math.Min(1, now.Broken[one.Name]+(1-now.Broken[one.Name])*now.Failing[one.Name])
		e.Broken = math.Max(e.Broken, share)
		good *= math.Pow(1-math.Pow(share, float64(retries+1)), math.Min(f.Visits, 1000))
	}
	e.ErrorShare = math.Max(0, 1-(1-unserved)*good)
	if e.ErrorShare < 1e-12 {
		e.ErrorShare = 0
	}
	return e
}

// Thresholds of a surprise: the minimum difference between measured and expected share of requests,
// and the minimum number of requests in the window.
const (
	surpriseShare    = 0.01
	surpriseRequests = 20
)

// surprises describes in words where a window differs from the calculation.
func surprises(w record.ScenarioWindow, unknown []string) []string {
	if w.Requests < surpriseRequests {
		return nil
	}
	var out []string
	e := w.Expected
	failed := fmt.Sprintf("%s: failed %s of requests", w.Name, resilience.Percent(w.ErrorShare))
	switch left := spare(e); {
	case w.ErrorShare >= e.ErrorShare+surpriseShare && e.ErrorShare < surpriseShare && math.IsInf(left, 1):
		out = append(out, failed+" although nothing bounds its capacity")
	case w.ErrorShare >= e.ErrorShare+surpriseShare && left > 0 && e.ErrorShare < surpriseShare:
		out = append(out, fmt.Sprintf("%s although capacity for %s more was left", failed, resilience.Percent(left)))
	case w.ErrorShare >= e.ErrorShare+math.Max(surpriseShare, 0.25*e.ErrorShare):
		out = append(out, fmt.Sprintf("%s; %s expected by calculation", failed, resilience.Percent(e.ErrorShare)))
	case w.ErrorShare <= e.ErrorShare-math.Max(surpriseShare, 0.25*e.ErrorShare) && left < 0:
		out = append(out, fmt.Sprintf("%s although demand exceeded capacity by %s", failed, resilience.Percent(-left/(1+left))))
	case w.ErrorShare <= e.ErrorShare-math.Max(surpriseShare, 0.25*e.ErrorShare):
		out = append(out, fmt.Sprintf("%s; %s expected by calculation as long as nothing ejects broken endpoints", failed, resilience.Percent(e.ErrorShare)))
	}
	if w.Attempts > e.Attempts*1.01 && e.Attempts > 0 {
		out = append(out, fmt.Sprintf("%s: %.2f attempts per request, more than the %.0f that retries explain", w.Name, w.Attempts, e.Attempts))
	}
	if len(unknown) > 0 {
		for i := range out {
			out[i] += fmt.Sprintf(" (the calculation does not include %s)", strings.Join(unknown, ", "))
		}
	}
	return out
}
