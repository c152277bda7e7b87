// Package verdict decides, from what a resilience trial saw, whether the trial is valid.
//
//	Evidence (written down by package trial) + record.Trial + its events + limits -> record.Validity
//
// It is pure: it judges a run when its trials end, and years later. The logs of single requests are
// judged elsewhere, by packages ledger and analysis.
package verdict

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/verdict"
)

// Evidence is what a trial observed, in addition to its record and its events.
type Evidence struct {
	// Debounce is istiod's report of the lever that the trial set; nil if it set none.
	Debounce *Debounce `json:"debounce,omitempty"`
	// Policies holds what the control plane reports to give all callers for the cell's levers, if
	// it can be asked. Proxies holds what single proxies had in force, in the order of the queries.
	Policies []record.Check `json:"policies,omitempty"`
	Proxies  []Proxy        `json:"proxies,omitempty"`
	// Carried reports whether node proxies carried the requests to each service as intended, by
	// their own counters.
	Carried []record.Check `json:"carried,omitempty"`
	// Control is the mesh's control plane; nil if steps of the timeline change it or it was not
	// observed.
	Control *verdict.ControlPlane `json:"control_plane,omitempty"`
	// Repeated says in words why earlier attempts at the trial failed.
	Repeated []string `json:"repeated,omitempty"`
	// Unmeasured says in words what is missing without affecting what the trial measured.
	Unmeasured []string `json:"unmeasured,omitempty"`
	// Revisions lists the control plane that each proxy was connected to, if steps involve
	// several: before the steps, after each step that moved proxies, and after all steps.
	Revisions []RevisionLook `json:"revisions,omitempty"`
	// Collected is what was read after the timeline; nil if the trial did not reach that point.
	Collected *Collected `json:"collected,omitempty"`
}

// Debounce describes a control plane with the cell's debounce level.
type Debounce struct {
	Level string `json:"level"` // of the cell
	// Restarted means that istiod was restarted with it. Took is how long that took, in
	// nanoseconds.
	Restarted bool          `json:"restarted"`
	Took      time.Duration `json:"took_ns"`
	// Checks compare every replica's own report with all levers of the cell.
	Checks []record.Check `json:"checks"`
}

// Proxy compares one proxy's configuration with the cell's levers: the last reading, with all
// levers in force or at the deadline.
type Proxy struct {
	Pod    string         `json:"pod"`
	Checks []record.Check `json:"checks"`
}

// Collected is what a trial that reached the end of its timeline left, in addition to its record.
type Collected struct {
	// Logged counts the requests in the clients' logs; Lost counts those that the clients had no
	// room for.
	Logged int64 `json:"logged"`
	Lost   int64 `json:"lost"`
	// Logs maps pod and container to the reason why its log could not be read to the end. Lines
	// holds the outcome of reading proxy log lines.
	Logs  map[string]string `json:"logs,omitempty"`
	Lines ledger.Lines      `json:"lines"`
	// Over counts entries of clients, proxies and workers that the trial had no room for.
	Over int64 `json:"over,omitempty"`
	// Missed lists failed samples, in order.
	Missed []Missed `json:"missed,omitempty"`
	// Clocks holds the nodes' offsets from the runner's clock before the trial, which were
	// subtracted from all times. ClocksAfter holds those after the timeline, for nodes that
	// answered.
	Clocks      map[string]Clock `json:"clocks,omitempty"`
	ClocksAfter map[string]Clock `json:"clocks_after,omitempty"`
	// Ledger says whether the requests balance. The requests themselves are in requests/.
	Ledger Ledger `json:"ledger"`
}

// Missed is a failed sample.
type Missed struct {
	Of    string `json:"of"` // what was sampled: counters, ejections, proxy of node NAME
	Error string `json:"error"`
	// AtNS is when the failure was known. SinceNS is when such a sample last succeeded or the first
	// was due, for a node's proxy once pods there were ready. There was no answer between the two.
	// Wall clock, Unix nanoseconds.
	AtNS    int64 `json:"at_unix_ns"`
	SinceNS int64 `json:"since_unix_ns"`
	// Every is the sampling interval, in nanoseconds.
	Every time.Duration `json:"every_ns"`
	// Last marks the final sample, which no later one replaces.
	Last bool `json:"last,omitempty"`
}

// Clock is the measured lead of a node's clock over the runner's, and the maximum error of that, in
// nanoseconds.
type Clock struct {
	Ahead time.Duration `json:"ahead_ns"`
	Bound time.Duration `json:"bound_ns"`
}

// Ledger is the account of all requests, as made by package ledger.
type Ledger struct {
	Requests     int64 `json:"requests"`
	Reconciled   bool  `json:"reconciled"`
	Unreconciled int64 `json:"unreconciled"`
	Orphans      int64 `json:"orphans"`
}

// check finds evidence that rules cannot use, or would mistake for a good trial: missing data looks
// like the absence of problems. It names the field. It applies to trials that reached their end.
func (e Evidence) check(t record.Trial) error {
	c := e.Collected
	switch {
	case t.Scenario == nil:
		return errors.New("the trial is not a resilience trial")
	case c == nil:
		return errors.New("collected: nothing, although the timeline came to its end")
	}
	checks := []error{verdict.CheckNamed("policies", e.Policies), verdict.CheckNamed("carried", e.Carried)}
	if e.Debounce != nil {
		checks = append(checks, verdict.CheckNamed("debounce.checks", e.Debounce.Checks))
	}
	for i, l := range e.Revisions {
		checks = append(checks, l.check(fmt.Sprintf("revisions[%d]", i)))
	}
	for i, p := range e.Proxies {
		checks = append(checks, verdict.CheckNamed(fmt.Sprintf("proxies[%d].checks", i), p.Checks))
	}
	for i, m := range c.Missed {
		if m.Error == "" {
			checks = append(checks, fmt.Errorf("collected.missed[%d]: no reason", i))
		}
		checks = append(checks, verdict.CheckCount(fmt.Sprintf("collected.missed[%d].every_ns", i), int64(m.Every)))
	}
	return cmp.Or(append(checks,
		verdict.CheckCount("collected.logged", c.Logged), verdict.CheckCount("collected.lost", c.Lost), verdict.CheckCount("collected.lines.Damaged", c.Lines.Damaged), verdict.CheckCount("collected.over", c.Over),
		verdict.CheckCount("collected.ledger.requests", c.Ledger.Requests), verdict.CheckCount("collected.ledger.unreconciled", c.Ledger.Unreconciled),
		verdict.CheckCount("collected.ledger.orphans", c.Ledger.Orphans))...)
}
