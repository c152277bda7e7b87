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
		Doc: "how far the gaps between the generator's own actions may be from exponential ones, beyond chance (Kolmogorov and Smirnov's distance)"}
	scheduleEven = verdict.Limit{Name: "schedule-even", Default: arrival.MaxUneven, Unit: "ratio",
		Doc: "the same where gaps are to be even, of uniform arrivals or of bursts: the mean deviation as a share of the gap"}
	scheduleOdd = verdict.Limit{Name: "schedule-fit-odd", Default: arrival.OddDistance, Unit: "ratio",
		Doc: "how far they may be from exponential ones without a warning"}
	scheduleEvenOdd = verdict.Limit{Name: "schedule-even-odd", Default: arrival.OddUneven, Unit: "ratio",
		Doc: "how far from even without a warning"}
	scheduleRate = verdict.Limit{Name: "schedule-rate", Default: arrival.MaxRateOff, Unit: "ratio",
		Doc: "how far the rate of the generator's actions may be off the rate asked for, beyond the chance of the arrivals"}
)

// Limits that package findings applies relative to other trials of the run. If they were relative
// to a trial's own latency, disturbances that invalidate trials of a cheap cell would be accepted
// in those of an expensive one, and would make up the difference between both.
var (
	// Package analysis weighs the effect of late requests in the tail on a finding against the
	// finding's effect.
	ScheduleLag = verdict.Limit{Name: "schedule-lag", Default: 0.25, Unit: "ratio",
		Doc: "how much of the baseline's median latency the generator's own median lateness may be: more, and it did not keep the schedule at all"}
	Steady = verdict.Limit{Name: "steady", Default: 0.25, Unit: "ratio",
		Doc: "how far latency may move from the window's first half to its second, beyond noise and beyond what it does in the other trials, as a share of the baseline's median latency"}
	SteadyCommon = verdict.Limit{Name: "steady-common", Default: 0.02, Unit: "ratio",
		Doc: "how far it may move in most trials alike without a warning, as a share of its level"}
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
			"%d gaps between the generator's actions are %.3f from exponential ones; chance explains %.3f, and the time to send one %.3f", k.Gaps, k.Distance, chance, queued)
		if k.Distance > l.Of(scheduleOdd)+queued+chance {
			s.Warn(noteClumps, k.Distance)
		}
	} else {
		s.Check("schedule-fit", k.Distance <= l.Of(scheduleEven), "%d gaps between the generator's actions are off by %.0f%% of the gap asked for", k.Gaps, k.Distance*100)
		if k.Distance > l.Of(scheduleEvenOdd) {
			s.Warn(noteUneven, k.Distance*100)
		}
	}
	chance := arrival.ChanceRate * k.AchievedError
	off := k.AchievedRatio - 1
	s.Check("schedule-rate", max(off, -off) <= l.Of(scheduleRate)+chance, "the generator acted at %.1f%% of the rate asked for%s", k.AchievedRatio*100, byChance(chance))
}

func byChance(ratio float64) string {
	if ratio == 0 {
		return ""
	}
	return fmt.Sprintf("; chance explains %.1f%%", ratio*100)
}
