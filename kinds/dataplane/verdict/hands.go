package verdict

import (
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/rate"
	"github.com/meshtrial/meshtrial/run/verdict"
	"github.com/meshtrial/meshtrial/study"
)

// handsApart limits the deviation of the joint schedule of several generators from the requested
// one. Poisson arrivals stay Poisson if a share of them is this little late, while bursts and even
// gaps break up.
var handsApart = verdict.Limit{Name: "hands-apart", Default: 1e-3, Unit: "s",
	Doc: "maximum offset between the clocks of several generators, after correction for their offset before the start"}

// checkHands checks that several generators together did what a single one would have done: all of
// them sent, each request once, and simultaneously.
func checkHands(s *verdict.Sheet, t record.Trial, e Evidence, l verdict.Limits) {
	asked := dataplane.GeneratorsIn(t.Cell)
	if asked == 1 && len(t.Hands) == 0 {
		return
	}
	var scheduled, completed int64
	idle := ""
	for _, h := range t.Hands {
		scheduled += h.Scheduled
		completed += h.Completed
		if h.Completed == 0 {
			idle += ", none by pod " + h.Pod
		}
	}
	// The parts cover the same intervals as the whole. Their sum only shows that the record is
	// complete, not that everything was sent. For a schedule its own number shows that; at rate max
	// it is the worker's count, and the participation of each generator.
	scheduledLoad := t.Cell[study.FactorRate] != rate.Word
	s.Check("hands", len(t.Hands) == asked && scheduled == t.Load.Scheduled && completed == t.Load.Completed && (scheduledLoad || idle == ""),
		"%d of %d generators sent %d of the %d requests, of which they completed %d of %d%s", len(t.Hands), asked, scheduled, t.Load.Scheduled, completed, t.Load.Completed, idle)
	if scheduledLoad {
		s.Check("hands-schedule", e.Planned == t.Load.Scheduled, "the generators sent %d requests; the schedule has %d in the window", t.Load.Scheduled, e.Planned)
	}
	checkClocks(s, t, l)
}

// checkClocks checks that the generators began simultaneously, by their clocks. The result is
// unknown if the error bounds are wider than the limit: then a schedule that must not break up is
// invalid, and others get a warning.
func checkClocks(s *verdict.Sheet, t record.Trial, l verdict.Limits) {
	clocks := make([]verdict.Clocks, len(t.Hands))
	for i, h := range t.Hands {
		clocks[i] = verdict.Clocks{Pod: h.Pod, Before: h.Before, After: h.After}
	}
	least, most, of := verdict.Apart(clocks)
	limit := l.Of(handsApart) * 1e6
	// Evenly spaced requests, bursts, and anything not known to be neither.
	exact := t.Cell[study.FactorRate] != rate.Word && t.Cell[study.FactorArrival] != study.ArrivalPoisson
	ok := least <= limit && (!exact || most <= limit)
	s.Check(handsApart.Name, ok, "the generators' clocks were between %.0f and %.0f us apart%s, once corrected; limit %.0f", least, most, of, limit)
	if ok && most > limit {
		s.Warn(noteClocksApart, most/1e3)
	}
}

// busiest returns the share of its CPUs that the generator used, or that of the busiest of several
// generators, with its name. An event loop has one CPU; clients of TLS, HTTP/2 or gRPC have all
// CPUs available to the process.
func busiest(t record.Trial, e Evidence) (share float64, who string) {
	cpus := float64(max(1, e.CPUs))
	if len(t.Hands) < 2 {
		return t.Load.CPU.TotalS() / (t.Window.Seconds * cpus), "the generator"
	}
	for _, h := range t.Hands {
		if used := h.CPU.TotalS() / (t.Window.Seconds * cpus / float64(len(t.Hands))); used >= share {
			share, who = used, "the generator of pod "+h.Pod
		}
	}
	return share, who
}
