package verdict

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/rate"
	"github.com/meshtrial/meshtrial/run/verdict"
	"github.com/meshtrial/meshtrial/study"
)

// ofHands returns a faultless trial of two generators with these clock offsets.
func ofHands(before, after record.Clock) *seen {
	j := faultless()
	j.trial.Cell[study.FactorGenerators], j.seen.Mesh.Cell[study.FactorGenerators] = "2", "2"
	j.trial.Hands = []record.Hand{
		{Pod: "a", Node: "n", Connections: 8, Scheduled: 4000, Completed: 4000, CPU: record.CPU{UserS: 0.5}},
		{Pod: "b", Node: "m", Connections: 8, Scheduled: 6000, Completed: 6000, CPU: record.CPU{UserS: 0.5}, Before: before, After: after},
	}
	j.seen.Loops, j.seen.Planned = 2, 10000
	return j
}

// A trial with several generators is valid if all of them sent the whole schedule, simultaneously
// by their clocks.
func TestHands(t *testing.T) {
	clock := func(ahead, wrong float64) record.Clock { return record.Clock{AheadUS: ahead, ErrorUS: wrong} }
	uniform := func(j *seen) {
		j.trial.Cell[study.FactorArrival] = study.ArrivalUniform
		j.trial.Load.Schedule.Process = study.ArrivalUniform
	}
	for _, tt := range []struct {
		name          string
		before, after record.Clock
		change        func(*seen)
		fails         string
		warns         *note.Kind
	}{
		{name: "no fault", before: clock(20, 100), after: clock(50, 100)},
		{name: "one is lost", change: func(j *seen) {
			j.trial.Hands = j.trial.Hands[:1]
			j.trial.Load.Scheduled, j.trial.Load.Completed = 4000, 4000
		}, fails: "hands hands-schedule"},
		{name: "one is lost of a schedule that nobody knows", change: func(j *seen) {
			j.trial.Cell[study.FactorRate] = rate.Word
			j.trial.Hands = j.trial.Hands[:1]
			j.trial.Load.Scheduled, j.trial.Load.Completed, j.trial.Load.Schedule = 4000, 4000, nil
		}, fails: "hands"},
		{name: "all are lost", change: func(j *seen) { j.trial.Hands = nil }, fails: "hands"},
		{name: "one too many", change: func(j *seen) { j.trial.Cell[study.FactorGenerators] = "1" }, fails: "hands"},
		{name: "a request of the schedule was never sent", change: func(j *seen) { j.seen.Planned++ }, fails: "hands-schedule"},
		{name: "a request was counted twice", change: func(j *seen) { j.trial.Hands[0].Scheduled++ }, fails: "hands"},
		{name: "an answer was lost when they were added up", change: func(j *seen) { j.trial.Hands[0].Completed-- }, fails: "hands"},
		{name: "one did nothing as fast as it could", change: func(j *seen) {
			j.trial.Cell[study.FactorRate], j.trial.Load.Schedule, j.seen.Planned = rate.Word, nil, 0
			j.trial.Hands[0].Scheduled, j.trial.Hands[0].Completed = 10000, 10000
			j.trial.Hands[1].Scheduled, j.trial.Hands[1].Completed = 0, 0
		}, fails: "hands"},
		{name: "one has nothing of a short schedule", change: func(j *seen) {
			j.trial.Hands[0].Scheduled, j.trial.Hands[0].Completed = 10000, 10000
			j.trial.Hands[1].Scheduled, j.trial.Hands[1].Completed = 0, 0
		}},
		{name: "a clock that is 5 ms ahead was corrected", before: clock(5000, 100), after: clock(5010, 100)},
		{name: "a clock was set by 5 ms in the trial", before: clock(20, 100), after: clock(5020, 100), fails: "hands-apart"},
		{name: "and back", before: clock(-5000, 100), after: clock(0, 100), fails: "hands-apart"},
		{name: "less than that is known", before: clock(0, 3000), after: clock(5000, 3000), warns: noteClocksApart},
		{name: "arrivals that must be at one time", before: clock(0, 400), after: clock(100, 800), change: uniform},
		{name: "and may not have been", before: clock(0, 400), after: clock(300, 800), change: uniform, fails: "hands-apart"},
		{name: "and were not known to be from the start", before: clock(0, 1100), after: clock(0, 100), change: uniform, fails: "hands-apart"},
		{name: "one of them without CPU to spare", change: func(j *seen) { j.trial.Hands[1].CPU.UserS = 1.81 }, fails: "generator-cpu"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := ofHands(tt.before, tt.after)
			if tt.change != nil {
				tt.change(j)
			}
			v := j.judge()
			var failed []string
			for _, c := range v.Checks {
				if !c.OK {
					failed = append(failed, c.Name)
				}
			}
			if got := strings.Join(failed, " "); got != tt.fails {
				t.Errorf("failed %q, want %q: %+v", got, tt.fails, v.Checks)
			}
			if warned := v.Warnings; (tt.warns == nil) != (len(warned) == 0) || tt.warns != nil && !tt.warns.In(warned) {
				t.Errorf("warnings %q", warned)
			}
		})
	}
	// With one generator there is no such check, and repeated trials are noted.
	j := faultless()
	j.seen.Repeated = []string{"load pod x: gone"}
	v := j.judge()
	for _, c := range v.Checks {
		if strings.HasPrefix(c.Name, "hands") {
			t.Errorf("a trial of one generator: %+v", c)
		}
	}
	if len(v.Warnings) != 1 || !v.Warnings[0].Is(verdict.NoteRepeated) {
		t.Errorf("%q", v.Warnings)
	}
}
