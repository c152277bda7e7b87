package verdict

import (
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/record"
)

// schedule checks that changes left at the intended rate. A late change does no harm in itself,
// since its way counts from its own commit. But istiod merges changes that are close together, so
// both their rate and their places in the schedule must be as planned. Deviations that are short
// compared with the convergence do not count: if changes wait for seconds, shifting one by a tenth
// of that merges no others.
func (r *ruling) schedule() {
	var planned, sent []int64
	var lates []time.Duration
	for _, e := range r.seen.Changes {
		if e.SentNS > 0 {
			planned, sent = append(planned, e.PlannedNS), append(sent, e.SentNS)
			lates = append(lates, time.Duration(e.SentNS-e.PlannedNS))
		}
	}
	if len(sent) == 0 {
		r.Check("driver-schedule", len(r.seen.Changes) == 0, "no change was sent")
		return
	}
	span := func(at []int64) time.Duration { return time.Duration(slices.Max(at) - slices.Min(at)) }
	want, got := span(planned), span(sent)
	gap := time.Duration(0) // between two changes, on average
	if len(sent) > 1 {
		gap = want / time.Duration(len(sent)-1)
	}
	slices.Sort(lates)
	least := max(r.lasting(driverLeast), time.Duration(r.limits.Of(driverBeside)*ranked(acknowledged(r.events), 0.5))*time.Microsecond)
	least = max(least, time.Duration(r.limits.Of(driverMoved)*float64(gap)))
	middle, moved := lates[len(lates)/2], 0
	for _, late := range lates {
		if (late - middle).Abs() > least {
			moved++
		}
	}
	ok := (got-want).Abs() <= max(r.lasting(driverLeast), time.Duration(r.limits.Of(driverSchedule)*float64(want))) && float64(moved) <= r.limits.Of(driverMovedShare)*float64(len(sent))
	r.Check("driver-schedule", ok, "%d changes were sent within %v, planned within %v; %d of them deviated by more than %v, the latest was sent %v late",
		len(sent), got.Round(time.Millisecond), want.Round(time.Millisecond), moved, least.Round(time.Millisecond), lates[len(lates)-1].Round(time.Microsecond))
}

// answers checks that the API server accepted changes as they were sent: changes that queue there
// reach istiod at a different rate than the cell's.
func (r *ruling) answers() {
	most := r.lasting(apiServer)
	sent, slow, worst := 0, 0, time.Duration(0)
	for _, e := range r.events {
		if e.SentNS == 0 || e.CommittedNS == 0 || byController(e) {
			continue
		}
		sent++
		took := time.Duration(max(e.CommittedNS, e.AnsweredNS) - e.SentNS)
		worst = max(worst, took)
		if took > most {
			slow++
		}
	}
	r.Check("api-server", slow == 0, "the API server took up to %v to accept a change, and longer than %v for %d of %d",
		worst.Round(time.Millisecond), most, slow, sent)
}

// byController reports whether a change's commit is the work of a controller rather than the answer
// to the change itself.
func byController(e record.Event) bool {
	return strings.HasPrefix(e.Object, "Pod/") || strings.HasPrefix(e.Object, "Deployment/")
}

// commits checks that the API server's answers and our own watch events, from which times count,
// were recorded on arrival. Istiod waits for more changes after each, so if a proxy had a change
// sooner than that, both were recorded late, because this machine was too busy. Delays that are
// short compared with the convergence, for example if changes wait for half a minute, are allowed
// up to the deviation allowed in the schedule.
func (r *ruling) commits() {
	allowed := max(r.lasting(commitsNoted), time.Duration(r.limits.Of(driverBeside)*ranked(acknowledged(r.events), 0.5))*time.Microsecond)
	least := r.seen.Asked.DebounceAfter
	if !r.seen.Asked.EDSDebounce {
		least = 0 // some changes are pushed at once
	}
	late, seen, worst := 0, 0, time.Duration(0)
	before := int64(0) // previous commit
	for _, e := range r.events {
		least := least
		if e.CommittedNS != 0 {
			if before != 0 && e.CommittedNS-before < int64(least)*3/2 {
				least = 0
			}
			before = e.CommittedNS
		}
		// A controller commits endpoints in several steps.
		if byController(e) {
			continue
		}
		first, known := firstReceived(e)
		if !known {
			continue
		}
		seen++
		early := least - first
		if early > allowed {
			late++
			worst = max(worst, early)
		}
	}
	r.Check("commits-noted", float64(late) <= r.limits.Of(commitsLate)*float64(seen),
		"%d of %d changes reached a proxy sooner after their commit than istiod's debounce time allows, by up to %v: the API server's responses and our watch events were recorded late",
		late, seen, worst.Round(time.Microsecond))
}

// firstReceived returns the time from a change's commit until the first simulated proxy received
// it.
func firstReceived(e record.Event) (first time.Duration, known bool) {
	for _, us := range e.Seen.ReceivedUS {
		if at := time.Duration(us) * time.Microsecond; us != record.Never && (!known || at < first) {
			first, known = at, true
		}
	}
	return first, known
}
