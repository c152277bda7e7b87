package trial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/population"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/verdict"
)

// Limits of what a control-plane trial may be believed with.
const (
	// maxSimulatorLag is how much of the convergence the simulated sidecars'
	// own lateness may be, at the median and at the 99th percentile, between
	// leastSimulatorLag, which is what times are told to, and
	// mostSimulatorLag, which is as long as istiod waits for more changes: a
	// real sidecar takes a part of that; beside many seconds it may be
	// tinySimulatorLag of them.
	maxSimulatorLag   = 0.1
	leastSimulatorLag = 1000.0    // us
	mostSimulatorLag  = 100_000.0 // us
	tinySimulatorLag  = 0.02
	// maxDriverLag is how far the time that the changes took may be from what
	// was planned, as a share of that: their rate is as far off. maxMoved is
	// how far a change may be off its place among the others, as a share of
	// the time between two; maxMovedShare of them may be further off. Beside
	// either there is leastDriverLag, and beside the latter maxBeside, a share
	// of the median convergence.
	maxDriverLag   = 0.1
	maxMoved       = 0.5
	maxMovedShare  = 0.1
	maxBeside      = 0.05
	leastDriverLag = 50 * time.Millisecond
	// maxNoted is how much sooner than istiod waits a proxy may have a change,
	// for the way of the API server's answer, and maxLateShare of the changes
	// may have come sooner than that.
	maxNoted     = 10 * time.Millisecond
	maxLateShare = 0.1
	// maxAnswer is how long the API server may take for a change: one that
	// takes longer stood still or was far too busy, and its changes came later
	// than planned, and together.
	maxAnswer = 2 * time.Second
	// maxSimulatorShare is the share of istiod's CPU above which the
	// simulated sidecars disturb it on a machine that they share.
	maxSimulatorShare = 0.5
)

// judge fills in the trial's validity.
func (t *controlTrial) judge(ctx context.Context, events []record.Event, sum toll, metricsErr error) {
	v := &t.out.Validity
	check := func(name string, ok bool, format string, args ...any) {
		v.Checks = append(v.Checks, record.Check{Name: name, OK: ok, Detail: fmt.Sprintf(format, args...)})
	}
	warn := t.warn
	good := t.levels.Clients == study.ClientsGood || t.levels.Clients == study.NotApplicable

	check("account", sum.balanced(), "%v", sum)
	check("committed", sum.failed == 0, "%d of %d changes were not taken by the API server%s", sum.failed, sum.planned, firstError(events, t.driveErr))
	check("istiod-lived", t.before.same(t.after), "istiod's replicas from before the first change to the end: %s",
		orNone(t.before.diff(t.after), "the same"))
	if metricsErr != nil {
		check("istiod-metrics", false, "%v", metricsErr)
	}
	if len(t.ids) > 0 {
		t.judgeFleet(check, good)
	}
	t.judgeDriver(events, check)
	judgeAnswers(events, check)
	t.judgeCommits(events, check)
	if sum.missed > 0 {
		warn("%d of %d sightings never came within %v of the last change: proxies that needed a change do not have it", sum.missed, sum.expected, t.c.study.Control.Settle)
	}
	if sum.unneeded > 0 {
		warn("%d times a proxy was sent a change that its scope keeps from it", sum.unneeded)
	}
	check("searched", sum.unsearched == 0, "%d contents could not be searched for markers any more", sum.unsearched)
	check("announced", sum.unlooked == 0, "%d changes that proxies lack may have come to them before they looked for these", sum.unlooked)
	v.Checks = append(v.Checks, t.c.mesh.Check(ctx, t.levers, t.evidence())...)
	if p := t.out.Pressure; p != nil && p.StealRatio > verdict.Steal.Default {
		warn("the hypervisor took %.1f%% of the CPU time", p.StealRatio*100)
	}
	if len(t.c.reals) > 0 && t.envoys != nil {
		warn("when real Envoys had a change in force is known to within %v", max(envoyEvery, time.Duration(t.envoys.pause.Load())).Round(time.Millisecond))
	}
	t.judgeProbe(warn)
	t.judgePushes(sum, check)
	if t.bound > time.Millisecond {
		warn("the simulated sidecars' clock is known to within %v", t.bound.Round(time.Microsecond))
	}
	if len(t.ids) > 0 {
		t.judgeLag(events, sum, check, warn)
		t.judgeCosts(warn)
	}
	v.Valid = true
	for _, c := range v.Checks {
		v.Valid = v.Valid && c.OK
	}
}

// judgeFleet checks the simulated sidecars: whether all stayed connected, and
// whether they understood everything.
func (t *controlTrial) judgeFleet(check func(string, bool, string, ...any), good bool) {
	lost := int64(0)
	var why []string
	for _, reason := range slices.Sorted(maps.Keys(t.out.Control.Reconnects)) {
		n := t.out.Control.Reconnects[reason]
		lost += n
		why = append(why, fmt.Sprintf("%s %d", reason, n))
	}
	a := t.accountAfter
	if good {
		check("connected", lost == 0 && a.Connected == len(t.ids), "%d of %d proxies are connected at the end, %d streams were lost in the window%s%s",
			a.Connected, len(t.ids), lost, strings.Join(prefixed(": ", why), ", "), strings.Join(prefixed("; the last: ", t.lastError(lost)), ""))
	} else {
		bad := len(badProxies(len(t.ids), float64(t.c.study.Control.BadShare)))
		check("connected", a.Connected >= len(t.ids)-bad, "%d of %d proxies are connected at the end, %d of them misbehave on purpose",
			a.Connected, len(t.ids), bad)
	}
	check("understood", a.Errors == t.accountBefore.Errors, "%d messages could not be understood in the window", a.Errors-t.accountBefore.Errors)
	nacks := int64(0)
	for _, w := range t.out.Control.Wire {
		nacks += w.Nacks
	}
	check("accepted", nacks == 0 || t.levels.Clients == study.ClientsRejects, "%d responses were rejected", nacks)
}

// lastError is what went wrong last with a stream, if one was lost.
func (t *controlTrial) lastError(lost int64) []string {
	if lost == 0 || t.status.LastError == "" {
		return nil
	}
	return []string{t.status.LastError}
}

// judgeDriver checks that changes left at the rate at which they were to
// leave. That a change leaves late does no harm by itself, since its way
// counts from its own commit; but istiod merges changes that come close
// together, so that neither their rate nor their places in the schedule may be
// others than planned. What is short beside the convergence is neither: where
// changes wait for seconds, a tenth of one earlier or later merges no others.
func (t *controlTrial) judgeDriver(events []record.Event, check func(string, bool, string, ...any)) {
	var planned, sent []int64
	var lates []time.Duration
	for _, e := range t.driven {
		if e.SentNS > 0 {
			planned, sent = append(planned, e.PlannedNS), append(sent, e.SentNS)
			lates = append(lates, time.Duration(e.SentNS-e.PlannedNS))
		}
	}
	if len(sent) == 0 {
		check("driver-schedule", len(t.driven) == 0, "no change was sent")
		return
	}
	span := func(at []int64) time.Duration { return time.Duration(slices.Max(at) - slices.Min(at)) }
	want, got := span(planned), span(sent)
	gap := time.Duration(0) // between two changes, on average
	if len(sent) > 1 {
		gap = want / time.Duration(len(sent)-1)
	}
	slices.Sort(lates)
	least := max(leastDriverLag, time.Duration(maxBeside*ranked(acknowledged(events), 0.5))*time.Microsecond)
	middle, moved := lates[len(lates)/2], 0
	for _, late := range lates {
		if (late - middle).Abs() > max(least, time.Duration(maxMoved*float64(gap))) {
			moved++
		}
	}
	ok := (got-want).Abs() <= max(leastDriverLag, time.Duration(maxDriverLag*float64(want))) && float64(moved) <= maxMovedShare*float64(len(sent))
	check("driver-schedule", ok, "%d changes left within %v, planned within %v; %d of them were off their place among the others by more than %v, the latest left %v after its time",
		len(sent), got.Round(time.Millisecond), want.Round(time.Millisecond), moved, max(least, time.Duration(maxMoved*float64(gap))).Round(time.Millisecond), lates[len(lates)-1].Round(time.Microsecond))
}

// judgeAnswers checks that the API server took changes as they were sent: what
// waits there comes to istiod at another rate than the cell says.
func judgeAnswers(events []record.Event, check func(string, bool, string, ...any)) {
	sent, slow, worst := 0, 0, time.Duration(0)
	for _, e := range events {
		if e.SentNS == 0 || e.CommittedNS == 0 || byController(e) {
			continue
		}
		sent++
		took := time.Duration(max(e.CommittedNS, e.AnsweredNS) - e.SentNS)
		worst = max(worst, took)
		if took > maxAnswer {
			slow++
		}
	}
	check("api-server", slow == 0, "the API server took up to %v to take a change, and longer than %v for %d of %d",
		worst.Round(time.Millisecond), maxAnswer, slow, sent)
}

// byController tells whether what counts as a change's commit is a
// controller's work, not the answer to the change itself.
func byController(e record.Event) bool {
	return strings.HasPrefix(e.Object, "Pod/") || strings.HasPrefix(e.Object, "Deployment/")
}

// judgeCommits checks that the API server's answers and our own watch, from
// which times count, were noted when they came. Istiod waits for more changes
// after each: where a proxy had one sooner than that, both were noted late,
// because this machine had no time for them.
func (t *controlTrial) judgeCommits(events []record.Event, check func(string, bool, string, ...any)) {
	least := t.levels.DebounceAfter
	if !t.levels.EDSDebounce {
		least = 0 // some changes are pushed at once
	}
	late, seen, worst := 0, 0, time.Duration(0)
	before := int64(0) // the commit before
	for _, e := range events {
		least := least
		if e.CommittedNS != 0 {
			if before != 0 && e.CommittedNS-before < int64(least)*3/2 {
				least = 0
			}
			before = e.CommittedNS
		}
		// Of endpoints a controller commits more than one step.
		if byController(e) {
			continue
		}
		first, known := firstReceived(e)
		if !known {
			continue
		}
		seen++
		early := least - first
		if early > maxNoted {
			late++
			worst = max(worst, early)
		}
	}
	check("commits-noted", float64(late) <= maxLateShare*float64(seen),
		"%d of %d changes reached a proxy sooner after their commit than istiod waits, by up to %v: the API server's answers, and our own watch, were noted late",
		late, seen, worst.Round(time.Microsecond))
}

// firstReceived is when the first simulated proxy received a change, after its
// commit.
func firstReceived(e record.Event) (first time.Duration, known bool) {
	for _, us := range e.Seen.ReceivedUS {
		if at := time.Duration(us) * time.Microsecond; us != never && (!known || at < first) {
			first, known = at, true
		}
	}
	return first, known
}

// firstError says why changes failed, with the first reason.
func firstError(events []record.Event, driveErr error) string {
	for _, e := range events {
		if e.Error != "" {
			return fmt.Sprintf("; change %d (%s %s): %s", e.Change, e.Op, e.Object, e.Error)
		}
	}
	if driveErr != nil && !errors.Is(driveErr, context.Canceled) {
		return "; " + driveErr.Error()
	}
	return ""
}

func orNone(text, none string) string {
	if text == "" {
		return none
	}
	return text
}

// prefixed puts a prefix before the first of several texts.
func prefixed(prefix string, texts []string) []string {
	if len(texts) == 0 {
		return nil
	}
	return append([]string{prefix + texts[0]}, texts[1:]...)
}

// evidence is what proves the levers.
func (t *controlTrial) evidence() mesh.ControlEvidence {
	e := mesh.ControlEvidence{Rises: t.out.Control.Istiod}
	seen := map[string]bool{}
	for _, id := range t.ids {
		key := id.Namespace + "/" + id.Workload
		gateway := id.Type == population.Router
		if seen[id.Namespace] && key != t.levers.Namespaces[0]+"/"+t.levers.Workload[population.AppLabel] || seen[key] {
			continue
		}
		seen[id.Namespace], seen[key] = true, true
		e.Proxies = append(e.Proxies, mesh.ControlProxy{ID: id.Name + "." + id.Namespace, Namespace: id.Namespace, Labels: id.Labels, Gateway: gateway})
	}
	return e
}
