package analysis

import (
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
)

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
