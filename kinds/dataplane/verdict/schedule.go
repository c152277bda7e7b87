package verdict

import (
	"fmt"

	"github.com/meshtrial/meshtrial/drive/load/arrival"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/verdict"
	"github.com/meshtrial/meshtrial/study"
)

// Limits on the generator's schedule that a trial alone can violate.
var (
	scheduleFit = verdict.Limit{Name: "schedule-fit", Default: arrival.MaxDistance, Unit: "ratio",
		Doc: "maximum Kolmogorov-Smirnov distance of the gaps between the generator's actions from an exponential distribution, beyond chance"}
	scheduleEven = verdict.Limit{Name: "schedule-even", Default: arrival.MaxUneven, Unit: "ratio",
		Doc: "for even gaps (uniform arrivals or bursts): the mean deviation as a share of the gap"}
	scheduleOdd = verdict.Limit{Name: "schedule-fit-odd", Default: arrival.OddDistance, Unit: "ratio",
		Doc: "distance from an exponential distribution before a warning"}
	scheduleEvenOdd = verdict.Limit{Name: "schedule-even-odd", Default: arrival.OddUneven, Unit: "ratio",
		Doc: "deviation from even gaps before a warning"}
	scheduleRate = verdict.Limit{Name: "schedule-rate", Default: arrival.MaxRateOff, Unit: "ratio",
		Doc: "maximum deviation of the generator's rate from the requested one, beyond the randomness of arrivals"}
)

// Limits that package findings applies relative to other trials of the run. If they were relative
// to a trial's own latency, disturbances that invalidate trials of a cheap cell would be accepted
// in those of an expensive one, and would make up the difference between both.
var (
	// Package analysis weighs the effect of late requests in the tail on a finding against the
	// finding's effect.
	ScheduleLag = verdict.Limit{Name: "schedule-lag", Default: 0.25, Unit: "ratio",
		Doc: "maximum median lateness of the generator as a share of the baseline's median latency: beyond it, it did not keep the schedule at all"}
	Steady = verdict.Limit{Name: "steady", Default: 0.25, Unit: "ratio",
		Doc: "maximum change of latency from the window's first half to its second, beyond noise and the other trials' change, as a share of the baseline's median latency"}
	SteadyCommon = verdict.Limit{Name: "steady-common", Default: 0.02, Unit: "ratio",
		Doc: "change in most trials alike before a warning, as a share of the level"}
)

// manyDue is the number of due times from which gaps between them are certain.
const manyDue = 20

// checkSchedule compares the times at which the generator acted on due requests with the requested
// arrivals. If a generator has neighbours in its schedule but no gap, its schedule is unknown,
// which is a warning rather than a reason to reject the trial.
func checkSchedule(s *verdict.Sheet, t record.Trial, e Evidence, l verdict.Limits) {
	load, loops := t.Load, e.Loops
	k := load.Schedule
	if k == nil {
		due := load.Scheduled
		if t.Cell[study.FactorArrival] == study.ArrivalBurst {
			due /= int64(max(1, e.Connections))
		}
		if due >= manyDue && load.Autocorrelation != nil {
			s.Warn(noteNoGaps, load.Scheduled)
		}
		return
	}
	if k.Process == study.ArrivalPoisson {
		// Requests due at nearly the same time leave one by one.
		queued := arrival.Serialised(l.Of(SendTime)*1e-6, load.Rate.RPS()/float64(max(1, loops)))
		chance := arrival.ChanceDistance(k.Gaps)
		s.Check("schedule-fit", k.Distance <= l.Of(scheduleFit)+queued+chance,
			"the distance of %d gaps between the generator's actions from an exponential distribution is %.3f; chance explains %.3f, and the time to send one %.3f", k.Gaps, k.Distance, chance, queued)
		if k.Distance > l.Of(scheduleOdd)+queued+chance {
			s.Warn(noteClumps, k.Distance)
		}
	} else {
		s.Check("schedule-fit", k.Distance <= l.Of(scheduleEven), "%d gaps between the generator's actions deviate by %.0f%% of the requested gap", k.Gaps, k.Distance*100)
		if k.Distance > l.Of(scheduleEvenOdd) {
			s.Warn(noteUneven, k.Distance*100)
		}
	}
	chance := arrival.ChanceRate * k.AchievedError
	off := k.AchievedRatio - 1
	s.Check("schedule-rate", max(off, -off) <= l.Of(scheduleRate)+chance, "the generator reached %.1f%% of the requested rate%s", k.AchievedRatio*100, byChance(chance))
}

func byChance(ratio float64) string {
	if ratio == 0 {
		return ""
	}
	return fmt.Sprintf("; chance explains %.1f%%", ratio*100)
}
