package verdict

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/kinds/controlplane/stages"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/verdict"
)

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
func (e Evidence) check(t record.Trial) error {
	if t.Control == nil {
		return fmt.Errorf("the trial is not a control-plane trial")
	}
	if e.EndNS <= 0 {
		return fmt.Errorf("end_unix_ns: %d, the end of observation is unknown", e.EndNS)
	}
	a := e.Audience
	if a.Simulated < 0 || a.Simulated > len(a.Proxies) {
		return fmt.Errorf("%d of %d proxies are simulated", a.Simulated, len(a.Proxies))
	}
	for _, c := range e.Changes {
		if c.Change < 0 || c.Change >= len(a.Scopes) {
			return fmt.Errorf("which proxies need change %d is unknown", c.Change)
		}
	}
	if d := e.Disruption; d != nil && len(d.Outage.LostNS) != len(d.Outage.BackNS) {
		return fmt.Errorf("the disruption's columns have different lengths")
	}
	for _, s := range e.Routes {
		if s.Change < 0 || s.Change >= len(e.Changes) {
			return fmt.Errorf("requests ask for the route of change %d, of %d", s.Change, len(e.Changes))
		}
	}
	for _, m := range slices.Concat(e.Markers, e.Envoys) {
		if !m.Even() {
			return fmt.Errorf("the sightings of change %d have columns of different lengths", m.Change)
		}
	}
	return nil
}

// Of completes a trial's record: the outcome of its changes, the stages of their way, and whether
// the trial is valid. The returned events are the changes with their sightings. Of replaces any
// such data already in the record.
func Of(t record.Trial, e Evidence, l verdict.Limits) (record.Trial, []record.Event) {
	r := newRuling(t, e, l)
	r.count()
	waterfall := r.stages()
	r.WarnEach(verdict.NoteRepeated, e.Repeated)
	r.Note(e.Problems...)
	r.drift()
	r.traffic()
	r.gateway()
	r.attached()
	r.disruption()
	r.Add(e.Unread...)
	r.odd(waterfall)
	r.changes()
	if e.Audience.Simulated > 0 {
		r.simulators()
		r.fleet()
	}
	r.schedule()
	r.answers()
	r.commits()
	r.missing()
	r.Add(e.Levers...)
	r.CheckUnattributed(t, l)
	r.WarnSteal(t.Pressure, l)
	if e.EnvoysEvery > 0 {
		r.Warn(noteEnvoysEvery, ms(e.EnvoysEvery))
	}
	r.pushes()
	if e.Audience.Simulated > 0 {
		r.lag()
	}
	r.costs()
	r.trial.Validity = r.Validity()
	return r.trial, r.events
}

// Salvage determines, as far as possible, the outcome of the changes in a trial that failed after
// making them.
func Salvage(t record.Trial, e Evidence) (record.Trial, []record.Event) {
	r := newRuling(t, e, nil)
	r.Note(e.Problems...)
	r.trial.Control.Changes, r.trial.Control.Committed = r.sum.planned, r.sum.committed
	r.account()
	r.trial.Validity = r.Validity()
	return r.trial, r.events
}

// ruling is the judgment of one trial in progress.
type ruling struct {
	verdict.Sheet
	trial  record.Trial
	seen   Evidence
	limits verdict.Limits
	events []record.Event
	sum    changeAccount
}

func newRuling(t record.Trial, e Evidence, l verdict.Limits) *ruling {
	control := *t.Control
	t.Control = &control // do not modify the caller's
	r := &ruling{trial: t, seen: e, limits: l}
	a := e.accountant()
	r.events = a.account()
	r.sum = a.sum
	return r
}

// count adds the accounts of changes and of the simulated proxies.
func (r *ruling) count() {
	c, before, after := r.trial.Control, r.seen.AccountBefore, r.seen.AccountAfter
	c.Changes, c.Committed = r.sum.planned, r.sum.committed
	c.StaleProxySeconds = r.sum.stale
	c.Installed, c.InstalledRequests = r.seen.Installed, r.seen.Requests
	c.Wire = map[string]record.Wire{}
	if r.seen.Audience.Simulated == 0 {
		return
	}
	c.Wire, c.ZtunnelWire = after.WireSince(before), after.ZtunnelWireSince(before)
	c.Config, c.ZtunnelConfig = after.Config, after.ZtunnelConfig
	c.ScopeConfig = after.NamespaceConfig[r.seen.Asked.ScopeNamespace]
	c.Simulator = after.CPU.Minus(before.CPU)
	c.SimulatorLag = after.Lag
	c.Reconnects = map[string]int64{}
	for why, n := range after.Reconnects {
		if rise := n - before.Reconnects[why]; rise > 0 {
			c.Reconnects[why] = rise
		}
	}
}

// ms converts a time to milliseconds.
func ms(d time.Duration) float64 { return float64(d) / 1e6 }

// drift compares the offset of the simulated sidecars' clock at the end with the offset at the
// start.
func (r *ruling) drift() {
	before, after := r.seen.Clock, r.seen.ClockAfter
	if after == nil {
		return
	}
	if moved := after.Ahead - before.Ahead; moved.Abs() > max(before.Bound+after.Bound, r.lasting(clockDrift)) {
		r.Warn(noteClockMoved, ms(moved), ms(before.Bound+after.Bound))
	}
}

// account checks whether the reports about the changes match the plan.
func (r *ruling) account() {
	lacking := r.seen.unaccounted()
	r.Check("account", lacking == "", "%v%s", r.sum, after("; ", lacking))
}

// changes checks whether all changes were made while istiod lived.
func (r *ruling) changes() {
	r.account()
	r.Check("committed", r.sum.failed == 0, "the API server did not accept %d of %d changes%s", r.sum.failed, r.sum.planned, firstError(r.events, r.seen.DriveError))
	changed := cameAndWent(r.seen.Before, r.seen.After)
	if scaled := autoscaled(r.seen.ScalersBefore, r.seen.ScalersAfter); scaled != "" {
		changed = strings.TrimPrefix(changed+"; ", "; ") + scaled
	}
	r.Check("istiod-lived", changed == "", "istiod's replicas from before the first change to the end: %s", cmp.Or(changed, "the same"))
	switch before, after := r.othersAtEdges(); {
	case before != after:
		r.Warn(noteOthersChanged, before, after)
	case after > 0:
		r.Warn(NoteOthers, after)
	}
}

// missing checks for absent sightings, and for those that may only appear absent.
func (r *ruling) missing() {
	sum := r.sum
	if sum.missed > 0 {
		r.Warn(noteMissed, sum.missed, sum.expected, r.seen.Asked.Settle)
	}
	if sum.unneeded > 0 {
		r.Warn(noteUnneeded, sum.unneeded)
	}
	if bound := r.seen.Clock.Bound; bound > r.lasting(clockBound) {
		r.Warn(noteClockBound, ms(bound))
	}
	r.Check("searched", sum.unsearched == 0, "%d contents could no longer be searched for markers", sum.unsearched)
	r.Check("announced", sum.unlooked == 0, "%d changes that proxies lack may have arrived before they watched for these", sum.unlooked)
}

// fleet checks whether all simulated sidecars stayed connected and understood everything.
func (r *ruling) fleet() {
	a, simulated := r.seen.AccountAfter, r.seen.Audience.Simulated
	lost := int64(0)
	var why []string
	for _, reason := range slices.Sorted(maps.Keys(r.trial.Control.Reconnects)) {
		n := r.trial.Control.Reconnects[reason]
		lost += n
		why = append(why, fmt.Sprintf("%s %d", reason, n))
	}
	if age := r.seen.Asked.ConnectionAge; age > 0 {
		away := Away(simulated, age)
		ended := int64(0)
		for _, why := range []string{"connection", "unavailable", refusedBy} { // a reconnecting proxy may be rejected
			ended += r.trial.Control.Reconnects[why]
		}
		most := aged(simulated, age, time.Duration(r.trial.Window.Seconds*float64(time.Second)))
		r.Check("connected", lost == ended && ended-r.trial.Control.Reconnects[refusedBy] <= int64(most) && a.Connected >= simulated-away, "%d of %d proxies are connected at the end, and at most %d may be reconnecting, since connections live at most %v; %d streams were lost in the window, of which age explains at most %d%s",
			a.Connected, simulated, away, age, lost, most, after(": ", strings.Join(why, ", ")))
	} else if r.seen.Asked.good() {
		last := ""
		if lost > 0 {
			last = after("; the last: ", r.seen.StreamError)
		}
		r.Check("connected", lost == 0 && a.Connected == simulated, "%d of %d proxies are connected at the end, %d streams were lost in the window%s%s",
			a.Connected, simulated, lost, after(": ", strings.Join(why, ", ")), last)
	} else {
		bad := len(r.seen.Misbehaving)
		r.Check("connected", a.Connected >= simulated-bad, "%d of %d proxies are connected at the end, %d of them misbehave on purpose",
			a.Connected, simulated, bad)
	}
	r.Check("understood", a.Errors == r.seen.AccountBefore.Errors, "%d messages could not be decoded in the window", a.Errors-r.seen.AccountBefore.Errors)
	nacks := int64(0)
	for _, w := range r.trial.Control.Wire {
		nacks += w.Nacks
	}
	r.Check("accepted", nacks == 0 || r.seen.Asked.Clients == controlplane.ClientsRejects, "%d responses were rejected", nacks)
}

// Away returns how many of some proxies may be disconnected at a time if istiod limits the age of
// connections: each proxy is disconnected for about a second.
func Away(proxies int, age time.Duration) int {
	return min(proxies, mostBy(float64(proxies)*float64(time.Second)/float64(age)))
}

// aged returns the maximum number of connections of some proxies that end from age in a window. The
// age varies randomly by a tenth, and connections that began together end together, so a window may
// see twice the average. No connection ends again before its age.
func aged(proxies int, age, window time.Duration) int {
	ages := float64(window+2*time.Second) / (0.9 * float64(age)) // counters are read slightly before and after
	return min(mostBy(2*float64(proxies)*ages), proxies*(1+int(ages)))
}

// mostBy returns the maximum count of a random event with this mean: four standard deviations of a
// Poisson distribution above it.
func mostBy(mean float64) int { return int(math.Ceil(mean + 4*math.Sqrt(mean) + 2)) }

// firstError explains why changes failed, with the first reason.
func firstError(changes []record.Event, driveError string) string {
	for _, e := range changes {
		if e.Error != "" {
			return fmt.Sprintf("; change %d (%s %s): %s", e.Change, e.Op, e.Object, e.Error)
		}
	}
	return after("; ", driveError)
}

// after returns a text after a prefix, or "" if there is none.
func after(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// traffic checks the accounts of a trial's requests.
func (r *ruling) traffic() {
	x, wait := r.trial.Control.Traffic, r.seen.TrafficWaitUS
	if x == nil {
		return
	}
	sum := x.Completed + x.FailedTotal() + x.Unfinished
	r.Check("traffic-account", x.Requests == sum && x.Requests > 0, "%d requests = %d completed + %d failed + %d unfinished", x.Requests, x.Completed, x.FailedTotal(), x.Unfinished)
	logged := x.Attempts - x.Unconnected
	slack := int64(max(r.limits.Of(trafficLogLeast), r.limits.Of(trafficLog)*float64(x.Counted)))
	r.Check("traffic-log", logged-x.GivenUp-x.Counted <= slack && x.Counted-logged <= slack,
		"the caller's sidecar logged %d attempts, %d of them without a connection and %d given up, some before they had one; its counter has %d of the others", x.Attempts, x.Unconnected, x.GivenUp, x.Counted)
	if x.Residual != 0 {
		r.Warn(noteFailuresApart, sum-x.Completed, sum-x.Completed-x.Residual)
	}
	if wait > r.limits.Of(trafficWait) {
		r.Warn(noteConnectionWait, wait/1e3, x.Connections)
	}
}

// stages fills in the stages of the changes' way, from istiod's log, its metrics and the proxies'
// times. It covers sidecars and gateways; ztunnels receive other types.
func (r *ruling) stages() stages.Waterfall {
	var names []string
	for _, p := range r.seen.Audience.Proxies {
		names = append(names, p.Name+"."+p.Namespace)
	}
	c := r.trial.Control
	w := stages.Make(stages.Input{Events: r.withoutZtunnels(), Proxies: names, Rises: c.Istiod, Logs: r.seen.Logs})
	c.Stages, c.MissingStages, c.Unexplained = w.Stages, w.Missing, w.Unexplained
	return w
}

// withoutZtunnels returns the events reduced to proxies other than ztunnels.
func (r *ruling) withoutZtunnels() []record.Event {
	if !slices.ContainsFunc(r.events, func(e record.Event) bool { return slices.ContainsFunc(e.Markers, record.Marker.OfZtunnels) }) {
		return r.events
	}
	out := slices.Clone(r.events)
	for i := range out {
		out[i].Markers = slices.DeleteFunc(slices.Clone(out[i].Markers), record.Marker.OfZtunnels)
		out[i].Seen = out[i].Seen.Of(func(p int32) bool { return !r.seen.Audience.Ztunnel(p) })
	}
	return out
}

// odd notes anomalies of a waterfall.
func (r *ruling) odd(w stages.Waterfall) {
	if lost, of := stages.LostLines(r.seen.Logs, r.trial.Control.Istiod); lost > 0 {
		r.Warn(noteLostLines, lost, of)
	}
	for _, s := range w.Stages {
		if s.MeanUS < -r.limits.Of(stageEarly) {
			r.Warn(noteStageEarly, s.Name, s.MeanUS/1000)
		}
	}
}
