// Package verdict judges trials of gateways from their evidence: who served which route when, and
// whether the trial is valid.
package verdict

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/drive/xds/routeprobe"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/verdict"
)

// Evidence is what a trial observed.
type Evidence struct {
	// Changes are the added routes, without the outcome of requests.
	Changes []record.Event `json:"changes"`
	// Routes has the outcomes of requests to them, by change, and Watched those of requests to
	// existing routes.
	Routes  []routeprobe.Seen `json:"routes"`
	Watched []routeprobe.Seen `json:"watched"`
	// AheadNS is how far the clock of the requesting pod is ahead of the runner's, within BoundNS.
	AheadNS int64 `json:"clock_ahead_ns"`
	BoundNS int64 `json:"clock_bound_ns"`
	// EveryNS is the interval of requests to an added route, and StepNS the planned interval between
	// two changes.
	EveryNS int64 `json:"every_ns"`
	StepNS  int64 `json:"step_ns"`
	// ReadyNS is the time from sending the first of the Gateway's objects until its routes were
	// served.
	ReadyNS int64 `json:"ready_ns"`
	// Rejected has what the statuses of routes that were never served say, by change.
	Rejected map[int]string `json:"rejected,omitempty"`
	// Control has the replicas of the ingress's control plane, and Gateway those of its proxy.
	Control verdict.ControlPlane `json:"control"`
	Gateway verdict.ControlPlane `json:"gateway"`
	// Problems are warnings from the time before the window.
	Problems []note.Note `json:"problems,omitempty"`
	// Unread has failed checks for what could not be read.
	Unread []record.Check `json:"unread,omitempty"`
}

// Limits of valid trials.
var (
	commitsLate = verdict.Limit{Name: "route-schedule", Default: 0.5, Unit: "ratio",
		Doc: "maximum deviation of an added route's commit from its planned time, as a share of the time between two"}
	commitsLateShare = verdict.Limit{Name: "route-schedule-share", Default: 0.1, Unit: "ratio",
		Doc: "share of the added routes that may deviate more"}
	requestsLate = verdict.Limit{Name: "route-requests-late", Default: 100, Unit: "ms",
		Doc: "maximum delay with which a request to an added route may be sent, or a tenth of the time until the route is served if that is longer"}
	requestsLateShare = verdict.Limit{Name: "route-requests-late-share", Default: 0.1, Unit: "ratio",
		Doc: "share of the added routes to which requests may be sent later"}
)

// lateOf is the part of the time until a route is served by which a request may always be late.
const lateOf = 10

// Limits are all limits of the kind.
var Limits = []verdict.Limit{verdict.Steal, verdict.Unattributed, verdict.UnattributedBusy, commitsLate, commitsLateShare, requestsLate, requestsLateShare}

// Warnings about trials.
var (
	// NoteUnserved is for a route that was never served.
	NoteUnserved = note.Define("route_never_served", "route %s was never served: answers by status %v%s")
	// NoteUnsettled is for statuses that an ingress had not written before the window.
	NoteUnsettled = note.Define("routes_unsettled", "the window began before all statuses were written: %d of %d routes were attached after %v")
	noteRelapsed  = note.Define("added_routes_relapsed", "%d of %d added routes stopped being served after their first successful response")
	noteWrong     = note.Define("existing_routes_failed", "%d of %d requests to existing routes failed: answers by status %v")
	noteUnsent    = note.Define("route_requests_unsent", "%d requests to routes were not sent because too many were outstanding")
)

// maxNamed limits the unserved routes that are named.
const maxNamed = 5

// Judge implements [verdict.Judge].
func Judge(c verdict.Case) (record.Trial, []record.Event, error) {
	var e Evidence
	if err := c.Read(&e, func() error { return e.check(c.Trial) }); err != nil {
		return c.Trial, nil, err
	}
	trial, events := Of(c.Trial, e, c.Limits)
	for i := range events {
		events[i].Trial = trial.ID
	}
	return trial, events, nil
}

// check finds evidence that rules cannot use.
func (e Evidence) check(record.Trial) error {
	if len(e.Routes) != len(e.Changes) {
		return fmt.Errorf("requests went to %d added routes, of %d", len(e.Routes), len(e.Changes))
	}
	for i, s := range e.Routes {
		if s.Change != i {
			return fmt.Errorf("routes[%d] is that of change %d", i, s.Change)
		}
	}
	for i, c := range e.Changes {
		if c.Change != i {
			return fmt.Errorf("changes[%d] is change %d", i, c.Change)
		}
	}
	if e.StepNS <= 0 {
		return fmt.Errorf("step_ns: %d", e.StepNS)
	}
	return verdict.CheckNamed("unread", e.Unread)
}

// Of completes a trial's record from its evidence, and returns the added routes with the outcome of
// requests.
func Of(t record.Trial, e Evidence, l verdict.Limits) (record.Trial, []record.Event) {
	var s verdict.Sheet
	out := &record.Ingress{Changes: len(e.Changes), ReadyUS: e.ReadyNS / 1000, Watched: map[string]int{},
		Requests: record.Gateway{EveryUS: e.EveryNS / 1000, Routes: len(e.Routes)}}
	t.Ingress = out
	events := slices.Clone(e.Changes)
	for i := range events {
		events[i].Served = nil
	}
	late := time.Duration(0)
	sent := func(seen routeprobe.Seen) {
		late = max(late, seen.Late)
		out.Requests.Unsent += seen.Unsent
	}
	most := time.Duration(l.Of(requestsLate) * float64(time.Millisecond))
	early, relapsed, named, tardy := 0, 0, 0, 0
	for _, seen := range e.Routes {
		sent(seen)
		c := &events[seen.Change]
		if seen.Late > max(most, time.Duration(seen.GoodNS-e.AheadNS-c.CommittedNS)/lateOf) {
			tardy++
		}
		if c.Error != "" || c.CommittedNS == 0 {
			continue
		}
		c.Served = seen.Served(c.CommittedNS, e.AheadNS)
		if seen.Relapses > 0 {
			relapsed++
		}
		switch {
		case seen.GoodNS == 0:
			if named++; named <= maxNamed {
				s.Warn(NoteUnserved, c.Object, seen.Statuses, e.rejection(seen.Change))
			}
		case seen.GoodNS-e.AheadNS+e.BoundNS < c.SentNS:
			early++
		}
	}
	requests := 0
	for _, seen := range e.Watched {
		sent(seen)
		out.Wrong += seen.Failed
		for status, n := range seen.Statuses {
			out.Watched[status] += n
			requests += n
		}
	}
	out.Requests.LateUS = late.Microseconds()
	s.Note(e.Problems...)
	if relapsed > 0 {
		s.Warn(noteRelapsed, relapsed, len(e.Routes))
	}
	if out.Wrong > 0 {
		s.Warn(noteWrong, out.Wrong, requests, maps.Clone(out.Watched))
	}
	if out.Requests.Unsent > 0 {
		s.Warn(noteUnsent, out.Requests.Unsent)
	}
	s.Check("routes-unserved-before", early == 0, "%d of %d routes were served before the change that creates them was sent", early, len(e.Routes))
	e.schedule(&s, events, l)
	// A late request makes the time of the route it was for coarser, which "known to within" shows.
	s.Check("requests-in-time", float64(tardy) <= l.Of(requestsLateShare)*float64(len(e.Routes)), "requests to %d of %d added routes were late by more than %v and a tenth of the time until the route was served", tardy, len(e.Routes), most)
	s.CheckControlPlane(&e.Control)
	s.Check("gateway-lived", slices.Equal(e.Gateway.Before, e.Gateway.After), "the gateway's pods from the window's start to its end: %v, %v", e.Gateway.Before, e.Gateway.After)
	s.Add(e.Unread...)
	s.CheckUnattributed(t, l)
	s.WarnSteal(t.Pressure, l)
	t.Validity = s.Validity()
	return t, events
}

// rejection returns what the status of a route says, if anything.
func (e Evidence) rejection(change int) string {
	if text := e.Rejected[change]; text != "" {
		return "; its status: " + text
	}
	return ""
}

// schedule checks that the routes were added as planned.
func (e Evidence) schedule(s *verdict.Sheet, events []record.Event, l verdict.Limits) {
	refused, moved := 0, 0
	why := ""
	for _, c := range events {
		if c.Error != "" || c.CommittedNS == 0 {
			if refused++; why == "" {
				why = ": " + c.Error
			}
			continue
		}
		if float64(c.CommittedNS-c.PlannedNS) > l.Of(commitsLate)*float64(e.StepNS) {
			moved++
		}
	}
	s.Check("committed", refused == 0, "the API server did not accept %d of %d routes%s", refused, len(events), why)
	s.Check("route-schedule", float64(moved) <= l.Of(commitsLateShare)*float64(len(events)), "%d of %d routes were committed more than %.0f%% of the time between two late", moved, len(events), 100*l.Of(commitsLate))
}
