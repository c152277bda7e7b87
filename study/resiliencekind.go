package study

import (
	"time"

	"github.com/meshtrial/meshtrial/record"
)

// What parts of a trial of resilience take, seen on two cores.
const (
	deployTime  = 12 * time.Second // pods with sidecars, until all are ready
	collectTime = 3 * time.Second  // logs of all proxies and workers
)

func resilienceSpec() Spec {
	return Spec{
		About: "resilience", section: "timeline",
		Example:  FactorRetries + ": " + LevelOff,
		Factors:  scenarioFactors,
		Measures: []string{MeasureLedger, MeasureLatency, MeasureCPU, MeasureMemory},
		Findings: scenarioFindings,
		Begin: func(s *Study) {
			s.Scenario = defaultScenario()
			s.Workload, s.Window, s.Interval = Workload{}, 0, 0
			s.Blocks = Blocks{Min: 1, Max: 1, Limit: 30 * time.Minute}
		},
		resolve:   (*decoder).resolveScenario,
		check:     (*decoder).checkScenario,
		checkPlan: (*decoder).checkCarried,
		files: func(s *Study, read func(name string) ([]byte, error)) error {
			if s.Scenario.Isotope != "" {
				scenario, err := s.Scenario.withIsotope(read)
				if err != nil {
					return err
				}
				s.Scenario = scenario
			}
			return nil
		},
		Trial: func(s *Study, _ record.Cell) (shortest, longest time.Duration) {
			base := deployTime + s.Scenario.Timeline.Duration + collectTime
			return base + s.Warmup.Min, base + s.Warmup.Max
		},
	}
}
