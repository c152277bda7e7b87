package findings

import (
	"fmt"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/study"
)

// counted is over how many seconds a trial's CPU was counted; false if the trial does not
// say so. Older ones do not: they counted from some time before the timeline on, for as
// long as they looked at endpoints.
func (s *trialScenario) counted() (over float64, said bool) {
	r := s.trial.Scenario
	if r.CountedS > 0 {
		return r.CountedS, true
	}
	from, to := r.StartNS, r.EndNS
	if n := len(r.Samples); n > 0 {
		from, to = min(from, r.Samples[0].AtNS), max(to, r.Samples[n-1].AtNS)
	}
	return float64(to-from) / 1e9, false
}

// countedLonger warns of trials that do not say for how long CPU was counted, where that
// was longer than the timeline that millicores are then over.
func countedLonger(o *analysis.Observations) []string {
	if !o.Plan.Study.Measured(study.MeasureCPU) {
		return nil
	}
	longest := 0.0
	for i := range o.Plan.Cells {
		for _, t := range o.Valid(i) {
			s := scenarioOfTrial(o, t)
			if s.length <= 0 {
				continue
			}
			if over, said := s.counted(); !said {
				longest = max(longest, over/seconds(s)-1)
			}
		}
	}
	if longest < 0.01 {
		return nil
	}
	return []string{fmt.Sprintf("CPU was counted from some time before the timeline on, as older releases did, and millicores are over the timeline alone: those of what runs without requests are up to %s too high, and CPU per request has what proxies used in that time too",
		words.Percent(longest))}
}
