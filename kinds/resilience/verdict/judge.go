package verdict

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/verdict"
	"github.com/meshtrial/meshtrial/study"
)

// Limits for a valid trial.
var (
	// Assertions about moments evaluate one-second intervals.
	scheduleLag = verdict.Limit{Name: "schedule-lag", Default: 1000, Unit: "ms",
		Doc: "maximum lateness of 99% of the requests that the clients caused: beyond it, the load was not the requested one"}
	// ScheduleLagWarning indicates a busy machine, also to tests on labs. Between the two limits,
	// assertions that depend on late requests are not judged; see package analysis.
	ScheduleLagWarning = verdict.Limit{Name: "schedule-lag-warning", Default: 10, Unit: "ms",
		Doc: "the same before a warning: the precision of windows"}
	stepLate   = verdict.Limit{Name: "step-late", Default: 5, Unit: "ms", Doc: "lateness of a step before a warning"}
	unsampled  = verdict.Limit{Name: "samples", Default: 3, Unit: "s", Doc: "maximum time without samples of ejected endpoints or CPU, beyond the sampling interval: counters continue, so one failed sample does no harm"}
	uncounted  = verdict.Limit{Name: "uncounted", Default: 0.02, Unit: "ratio", Doc: "share of the timeline whose CPU may be uncounted: its requests are counted, their cost is not"}
	nsPerMilli = float64(time.Millisecond)
)

// Limits lists all limits of the kind.
var Limits = []verdict.Limit{scheduleLag, ScheduleLagWarning, stepLate, unsampled, uncounted, clocksApart, verdict.Unattributed, verdict.UnattributedBusy}

// Judge implements [verdict.Judge].
func Judge(c verdict.Case) (record.Trial, []record.Event, error) {
	var e Evidence
	if err := c.Read(&e, func() error { return e.check(c.Trial) }); err != nil {
		return c.Trial, nil, err
	}
	c.Trial.Validity = Of(c.Trial, c.Events, e, c.Limits)
	return c.Trial, c.Events, nil
}

// Of decides whether a trial is valid. A trial that did not reach its end is invalid regardless of
// the result here, which covers only what was observed until then.
func Of(t record.Trial, events []record.Event, e Evidence, l verdict.Limits) record.Validity {
	var s verdict.Sheet
	if e.Debounce != nil {
		s.Add(checkDebounce(*e.Debounce))
	}
	s.Add(e.Policies...)
	s.Add(checkProxies(e.Proxies)...)
	if e.Collected == nil || t.Scenario == nil {
		return s.Validity()
	}
	checkCarried(&s, t, e.Carried)
	checkClients(&s, t.Scenario, *e.Collected, l)
	checkLogs(&s, *e.Collected)
	s.CheckControlPlane(e.Control)
	checkRevisions(&s, e.Revisions, events)
	checkSteps(&s, events)
	checkSamples(&s, e.Collected.Missed, l)
	checkCounted(&s, t, l)
	checkClocks(&s, *e.Collected, l)
	s.WarnEach(verdict.NoteRepeated, e.Repeated)
	warnSteps(&s, events, l)
	s.WarnEach(verdict.NoteUnmeasured, e.Unmeasured)
	s.CheckUnattributed(t, l)
	if b := e.Collected.Ledger; !b.Reconciled {
		s.Warn(noteUnreconciled, b.Unreconciled, b.Requests, b.Orphans)
	}
	return s.Validity()
}

// checkDebounce summarizes the replicas' own reports: the trial is invalid if one of them has
// another lever than the cell, or if nothing was read.
func checkDebounce(d Debounce) record.Check {
	how := "had it already"
	if d.Restarted {
		how = fmt.Sprintf("was restarted with it in %.1f s", d.Took.Seconds())
	}
	sum := record.Check{Name: strings.ReplaceAll(study.FactorDebounceAfter, "_", "-"), OK: len(d.Checks) > 0,
		Detail: fmt.Sprintf("the cell sets %s; istiod %s", d.Level, how)}
	var wrong []string
	for _, c := range d.Checks {
		if !c.OK {
			wrong = append(wrong, c.Name+": "+c.Detail)
		}
	}
	switch {
	case len(d.Checks) == 0:
		sum.Detail += ", but reports no settings"
	case len(wrong) > 0:
		sum.OK = false
		sum.Detail += ", but the settings it reports differ: " + strings.Join(wrong, "; ")
	default:
		sum.Detail += fmt.Sprintf(", and reports it (%s)", words.Plural(len(d.Checks), "check"))
	}
	return sum
}

// checkCarried adds the node proxies' reports on the requests that they should have carried.
func checkCarried(s *verdict.Sheet, t record.Trial, carried []record.Check) {
	s.Add(carried...)
	if study.Ambient(t.Cell) && len(carried) == 0 {
		s.Check("carried", false, "whether node proxies carried the requests was not checked")
	}
}

// checkProxies merges checks by name: it keeps the first proxy's, or that of the first proxy that
// lacks the lever.
func checkProxies(proxies []Proxy) []record.Check {
	var out []record.Check
	for _, p := range proxies {
		for _, c := range p.Checks {
			if !c.OK {
				c.Detail = p.Pod + ": " + c.Detail
			}
			at := slices.IndexFunc(out, func(o record.Check) bool { return o.Name == c.Name })
			switch {
			case at < 0:
				out = append(out, c)
			case !c.OK && out[at].OK:
				out[at] = c
			}
		}
	}
	return out
}

// checkClients checks the clients' account, their logs, and whether they kept their schedules.
func checkClients(s *verdict.Sheet, out *record.Scenario, c Collected, l verdict.Limits) {
	failed := int64(0)
	for _, n := range out.Failed {
		failed += n
	}
	s.Check("account", out.Scheduled == out.Completed+failed+out.Unfinished && out.Scheduled > 0,
		"%d requests scheduled = %d completed + %d failed + %d unfinished", out.Scheduled, out.Completed, failed, out.Unfinished)
	s.Check("request-log", c.Lost == 0 && c.Logged == out.Scheduled,
		"%d requests are in the clients' logs, %d were scheduled", c.Logged, out.Scheduled)
	lag, most := out.Lag.At(0.99)/1e3, l.Of(scheduleLag)
	s.Check("schedule-lag", lag <= most, "99%% of the requests were sent within %.2f ms of their time, limit %.0f ms", lag, most)
	if lag > l.Of(ScheduleLagWarning) {
		s.Warn(noteLateClients, lag)
	}
}

// checkLogs checks that all logs of proxies and workers were read to the end.
func checkLogs(s *verdict.Sheet, c Collected) {
	var problems []string
	for _, container := range slices.Sorted(maps.Keys(c.Logs)) {
		problems = append(problems, fmt.Sprintf("log of %s: %s", container, c.Logs[container]))
	}
	// A proxy and its agent write to one pipe, and may tear each other's lines. What such a line said
	// is known from the others if the ledger reconciles without it.
	if c.Lines.Damaged > 0 && !c.Ledger.Reconciled {
		problems = append(problems, words.Plural(c.Lines.Damaged, "damaged line")+" in proxies' logs")
	}
	if c.Over > 0 {
		problems = append(problems, fmt.Sprintf("%d log entries exceed a trial's limit: use a shorter timeline or a lower rate", c.Over))
	}
	checkNone(s, "logs", strings.Join(problems, "\n"), "the logs of all proxies and workers were read to their ends")
}

// checkSteps reports the steps that did not, or may not have, taken effect.
func checkSteps(s *verdict.Sheet, events []record.Event) {
	var unproven []string
	for _, e := range events {
		if e.Error != "" {
			unproven = append(unproven, fmt.Sprintf("%s: %s", e.Step, e.Error))
		}
	}
	checkNone(s, "steps", strings.Join(unproven, "; "), words.Plural(len(events), "step")+" took effect")
}

// checkSamples checks that ejected endpoints and CPU were sampled throughout.
func checkSamples(s *verdict.Sheet, missed []Missed, l verdict.Limits) {
	longest := time.Duration(l.Of(unsampled) * float64(time.Second))
	problem := ""
	for _, m := range missed {
		if m.Last || time.Duration(m.AtNS-m.SinceNS) > longest+m.Every {
			problem = m.Error
		}
	}
	checkNone(s, "looks", problem, "endpoints and CPU were sampled throughout")
}

// checkCounted checks that CPU was counted over the whole timeline, since a busy machine may take
// the first reading late.
func checkCounted(s *verdict.Sheet, t record.Trial, l verdict.Limits) {
	if over, length := t.Scenario.CountedS, t.Window.Seconds; length > 0 && (over > 0 || len(t.Scenario.CPU) > 0) {
		s.Check("counted", over >= length*(1-l.Of(uncounted)), "CPU was counted for %.2f s of a timeline of %.2f s", over, length)
	}
}

// warnSteps warns of steps that began late.
func warnSteps(s *verdict.Sheet, events []record.Event, l verdict.Limits) {
	for _, e := range events {
		if late := float64(e.SentNS-e.PlannedNS) / nsPerMilli; late > l.Of(stepLate) {
			s.Warn(noteLateStep, e.Step, late)
		}
	}
}

// checkNone adds a check that passes if problem is empty; otherwise problem is its detail.
func checkNone(s *verdict.Sheet, name, problem, well string) {
	if problem == "" {
		s.Check(name, true, "%s", well)
		return
	}
	s.Check(name, false, "%s", problem)
}
