package findings

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Events of steps, as written by package fault's driver.
const (
	eventStep = "step"
	opEnd     = "end "
)

// grid is the resolution of timeline times: beginnings round down, ends round up.
const grid = int64(10_000_000)

// secondNS is the length of a moment.
const secondNS = int64(1_000_000_000)

// sent is a request as its client saw it. Times are nanoseconds since the start of the timeline.
type sent struct {
	at     int64 // the time that determines its window
	due    int64
	done   int64 // Never: still pending at the end
	ok     bool
	failed bool
	kind   string // of failure
	micros int64  // latency of the answer
	key    int    // of the header used for consistent hashing; -1: unknown
	host   string // that answered
}

// timed is a step's turn as it happened, in nanoseconds since the start of the timeline.
type timed struct {
	record.ScenarioStep
	begin int64 // on the grid
	end   int64 // on the grid; 0: not before the end of the timeline
	// action is the planned turn; nil if the study has no such step.
	action *fault.Occurrence
}

// boundary is a point between windows.
type boundary struct {
	at    int64
	names []string
	begin bool // of any step
}

// trialScenario is the result of a resilience trial.
type trialScenario struct {
	trial    *record.Trial
	study    *study.Study
	length   int64 // of the timeline
	steps    []timed
	bounds   []boundary // the first is the start of the timeline
	requests []sent     // sorted by at
	answers  []int64    // arrival times of answers, in order; nanoseconds since the start
	account  *ledger.Account
	windows  []record.ScenarioWindow
	total    record.ScenarioWindow
	verdict  record.TrialVerdict
	summary  *record.ScenarioSummary // without verdicts
	hist     *hdrhistogram.Histogram // latency, nanoseconds
	unknown  []string                // why the trial cannot be judged
	// punctual is the trial without the requests that the clients sent late through their own
	// fault; nil if there are none. late is the number of those requests.
	punctual *trialScenario
	late     int
	// forgives is the delay in sending a request, in nanoseconds, up to which the delay is excluded
	// from its latency; 0 for none.
	forgives int64
	// latency holds the latency of all requests per window, totalLatency that of all requests. Both
	// count requests that failed or never ended as infinite. The windows' own latency covers
	// answered requests.
	latency      []record.Latency
	totalLatency record.Latency
}

// scenarioOfTrial returns the result of a resilience trial, computed on first use.
func scenarioOfTrial(o *analysis.Observations, t *record.Trial) *trialScenario {
	all := o.Own.(*scenarios)
	s, ok := all.trials[t.ID]
	if !ok {
		s = readScenario(o, t, all)
		all.trials[t.ID] = s
	}
	return s
}

// readScenario computes the result of a trial. Its single requests are released afterwards.
func readScenario(o *analysis.Observations, t *record.Trial, all *scenarios) *trialScenario {
	s := &trialScenario{trial: t, study: o.Plan.Study}
	doubt := func(format string, args ...any) { s.unknown = append(s.unknown, fmt.Sprintf(format, args...)) }
	if !t.Validity.Valid {
		for _, c := range t.Validity.Checks {
			if !c.OK {
				doubt("the trial is not valid: %s: %s", strings.ReplaceAll(c.Name, "_", " "), c.Detail)
			}
		}
		if len(s.unknown) == 0 {
			doubt("the trial is not valid")
		}
	}
	switch {
	case t.Scenario == nil:
		doubt("nothing was counted")
	case t.Scenario.EndedBy != "":
		doubt("the timeline ended early: %s", t.Scenario.EndedBy)
	}
	if t.Scenario != nil {
		s.length = t.Scenario.EndNS - t.Scenario.StartNS
		s.happened(o.Events[t.ID])
		s.unknown = append(s.unknown, s.unproven()...)
		book, err := BookOf(&o.Run, o.Plan.Study, t)
		switch {
		case err != nil:
			doubt("its requests are unknown: %v", err)
		case s.length <= 0:
			doubt("its timeline has no duration")
		default:
			s.read(book)
			s.readPunctual(book, o.Events[t.ID])
		}
	}
	s.judge(all.assertions)
	s.requests, s.answers, s.punctual = nil, nil, nil
	return s
}

// readPunctual analyzes the trial a second time if requests may have left later than the grid's
// resolution through the clients' own fault. It drops the late requests that failed and measures
// the latency of the answered ones from when they left. Outcomes that depend on the difference
// reflect the clients' machine. A request that left later than the clients' maximum lag waited for
// a connection, which is not the clients' fault.
func (s *trialScenario) readPunctual(book *ledger.Book, events []*record.Event) {
	most := int64(1.02 * s.trial.Scenario.Lag.Max() * 1e3) // histograms round it
	if most <= grid {
		return
	}
	rest := book.Without(func(c *ledger.ClientEntry) bool {
		wait := c.SentNS - c.IntendedNS
		late := c.SentNS != record.Never && wait > grid && wait <= most
		if late {
			s.late++
		}
		return late && c.Outcome != ledger.OutcomeOK
	})
	if s.late == 0 {
		return
	}
	s.punctual = &trialScenario{trial: s.trial, study: s.study, length: s.length, forgives: most}
	s.punctual.happened(events)
	s.punctual.read(rest)
}

// happened turns the steps' events into turns and boundaries.
func (s *trialScenario) happened(events []*record.Event) {
	zero := s.trial.Scenario.StartNS
	seconds := func(ns int64) float64 {
		if ns == 0 {
			return 0
		}
		return float64(ns-zero) / 1e9
	}
	plan := s.planned()
	for _, e := range events {
		if e.Kind != eventStep || e.Step == "" || strings.HasPrefix(e.Op, opEnd) {
			continue
		}
		one := timed{ScenarioStep: record.ScenarioStep{Name: e.Step, Op: e.Op, Object: e.Object, PlannedS: seconds(e.PlannedNS), BeginS: seconds(e.SentNS),
			AppliedS: seconds(e.CommittedNS), ProvenS: seconds(e.WatchedNS), Proof: e.Proof, Error: e.Error}}
		if e.SentNS > 0 {
			one.LateUS = float64(e.SentNS-e.PlannedNS) / 1e3
			one.begin = max(0, floor(e.SentNS-zero))
		}
		if i := slices.IndexFunc(plan, func(p fault.Occurrence) bool { return p.Name == e.Step }); i >= 0 {
			one.action = &plan[i]
		}
		s.steps = append(s.steps, one)
	}
	slices.SortStableFunc(s.steps, func(a, b timed) int { return cmp.Compare(a.begin, b.begin) })
	for _, e := range events {
		if e.Kind != eventStep || !strings.HasPrefix(e.Op, opEnd) || e.CommittedNS == 0 {
			continue
		}
		i := slices.IndexFunc(s.steps, func(one timed) bool { return one.Name == e.Step })
		if i < 0 {
			continue
		}
		if e.Error != "" && s.steps[i].Error == "" {
			s.steps[i].Error = "not reverted: " + e.Error
		}
		if at := ceil(e.CommittedNS - zero); at < s.length-grid { // otherwise it is the clean-up after the timeline
			s.steps[i].end, s.steps[i].EndS = at, seconds(e.CommittedNS)
		}
	}
	s.bounds = []boundary{{at: 0, names: []string{windowStart}}}
	add := func(at int64, name string, begin bool) {
		if at >= s.length {
			return
		}
		i, ok := slices.BinarySearchFunc(s.bounds, at, func(b boundary, at int64) int { return cmp.Compare(b.at, at) })
		if !ok {
			s.bounds = slices.Insert(s.bounds, i, boundary{at: at})
		}
		s.bounds[i].names = append(s.bounds[i].names, name)
		s.bounds[i].begin = s.bounds[i].begin || begin
	}
	for _, one := range s.steps {
		if one.BeginS != 0 || one.AppliedS != 0 {
			add(one.begin, one.Name, true)
		}
	}
	for _, one := range s.steps {
		if one.end > 0 {
			add(one.end, one.Name+windowEnd, false)
		}
	}
}

// planned returns the planned turns of the trial.
func (s *trialScenario) planned() []fault.Occurrence {
	timeline := resilience.Of(s.study).TimelineOf(s.trial.Cell)
	return timeline.Plan()
}

// Names of windows that no step begins: the one before the first step, and those that begin when a
// step ends.
const (
	windowStart = "start"
	windowEnd   = ".end"
)

func floor(ns int64) int64 { return int64(math.Floor(float64(ns)/float64(grid))) * grid }

func ceil(ns int64) int64 { return int64(math.Ceil(float64(ns)/float64(grid))) * grid }

// unproven describes the steps that did not happen as planned, or whose outcome is unknown.
func (s *trialScenario) unproven() []string {
	var out []string
	seen := map[string]bool{}
	for _, one := range s.steps {
		seen[one.Name] = true
		switch {
		case one.Error != "":
			out = append(out, fmt.Sprintf("step %q: %s", one.Name, one.Error))
		case one.ProvenS == 0:
			out = append(out, fmt.Sprintf("step %q was not proven", one.Name))
		}
	}
	for _, p := range s.planned() {
		if !seen[p.Name] {
			out = append(out, fmt.Sprintf("step %q did not happen", p.Name))
		}
	}
	return out
}

// read computes windows, ledger and series from a trial's requests.
func (s *trialScenario) read(book *ledger.Book) {
	zero := s.trial.Scenario.StartNS
	s.hist = hdrhistogram.New(1, 60_000_000_000, 3)
	book.Each(func(r *ledger.Request) bool {
		if r.Client == nil {
			return true
		}
		c := r.Client
		one := sent{at: s.moment(c), due: c.IntendedNS - zero, done: c.DoneNS, ok: c.Outcome == ledger.OutcomeOK}
		one.key, one.host = keyOf(r)
		if c.DoneNS != record.Never {
			one.done -= zero
		}
		switch {
		case one.ok:
			from := c.IntendedNS
			if wait := c.SentNS - c.IntendedNS; wait > grid && wait <= s.forgives {
				from = c.SentNS
			}
			one.micros = max(0, c.DoneNS-from) / 1e3
			s.answers = append(s.answers, one.done)
			_ = s.hist.RecordValue(min(max(c.DoneNS-from, 1), 60_000_000_000))
		case c.Outcome != ledger.OutcomeUnfinished:
			one.failed, one.kind = true, c.Outcome
		}
		s.requests = append(s.requests, one)
		return true
	})
	slices.SortStableFunc(s.requests, func(a, b sent) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.due, b.due)) })
	slices.Sort(s.answers)
	s.cut(book)
	s.measureSteps()
	s.summary = s.summarize()
}

// moment returns the time that determines a request's window: when it was due. A request that was
// pending when a step began, and then failed, counts toward the step instead. Timeouts are the
// exception, since they do not show when their cause arose, unless the step was the first.
func (s *trialScenario) moment(c *ledger.ClientEntry) int64 {
	zero := s.trial.Scenario.StartNS
	due := c.IntendedNS - zero
	if c.Outcome == ledger.OutcomeOK || c.Outcome == ledger.OutcomeUnfinished || c.DoneNS == record.Never {
		return due
	}
	first := true
	for _, b := range s.bounds {
		if !b.begin {
			continue
		}
		if due < b.at && b.at <= c.DoneNS-zero && (first || c.Outcome != ledger.OutcomeTimeout) {
			return b.at
		}
		first = false
	}
	return due
}
