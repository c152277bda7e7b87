// Package verdict decides, from what a resilience trial saw, whether the trial is valid.
//
//	Evidence (written down by package trial) + record.Trial + its events + limits -> record.Validity
//
// It is pure: a run is judged by it when its trials end, and years later. What
// was written about single requests is judged elsewhere, by packages ledger
// and analysis.
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

// Evidence is what a trial saw, besides its record and its events.
type Evidence struct {
	// Debounce is istiod's report of the lever that the trial set; nil if it set none.
	Debounce *Debounce `json:"debounce,omitempty"`
	// Policies is what the control plane reports to give all callers of the cell's levers,
	// where it can be asked; Proxies is what single proxies had in force, in the order in
	// which they were asked.
	Policies []record.Check `json:"policies,omitempty"`
	Proxies  []Proxy        `json:"proxies,omitempty"`
	// Carried is whether proxies on nodes carried the requests to each service, where they
	// should, by their own counters.
	Carried []record.Check `json:"carried,omitempty"`
	// Control is the mesh's control plane; nil if steps of the timeline change it, or if it
	// was not observed.
	Control *verdict.ControlPlane `json:"control_plane,omitempty"`
	// Repeated says in words why earlier attempts at the trial failed.
	Repeated []string `json:"repeated,omitempty"`
	// Unmeasured says in words what is missing without affecting what the trial measured.
	Unmeasured []string `json:"unmeasured,omitempty"`
	// Revisions is which control plane sidecars were connected to, if steps involve several:
	// before the steps, after each that moved them, and after all.
	Revisions []RevisionLook `json:"revisions,omitempty"`
	// Collected is what was read after the timeline; nil if the trial did not get that far.
	Collected *Collected `json:"collected,omitempty"`
}

// Debounce is a control plane with the cell's debounce.
type Debounce struct {
	Level string `json:"level"` // of the cell
	// Restarted says that istiod was restarted with it, Took how long that took, nanoseconds.
	Restarted bool          `json:"restarted"`
	Took      time.Duration `json:"took_ns"`
	// Checks compare every replica's own report with all levers of the cell.
	Checks []record.Check `json:"checks"`
}

// Proxy is one proxy's configuration compared with the cell's levers: the last look, with all
// levers in force or when the time was up.
type Proxy struct {
	Pod    string         `json:"pod"`
	Checks []record.Check `json:"checks"`
}

// Collected is what a trial left that reached the end of its timeline, besides its record.
type Collected struct {
	// Logged requests are in the clients' logs; Lost is how many the clients had no room for.
	Logged int64 `json:"logged"`
	Lost   int64 `json:"lost"`
	// Logs has, by pod and container, why its log could not be read to its end, Lines how the
	// lines of proxies were read.
	Logs  map[string]string `json:"logs,omitempty"`
	Lines ledger.Lines      `json:"lines"`
	// Over are entries of clients, proxies and workers that the trial had no
	// room for.
	Over int64 `json:"over,omitempty"`
	// Missed are samples that failed, in order.
	Missed []Missed `json:"missed,omitempty"`
	// Clocks are the nodes' offsets from ours before the trial, by node, which were subtracted
	// from all times, and ClocksAfter those after the timeline, of nodes that answered.
	Clocks      map[string]Clock `json:"clocks,omitempty"`
	ClocksAfter map[string]Clock `json:"clocks_after,omitempty"`
	// Ledger is whether the requests balance: they are in requests/.
	Ledger Ledger `json:"ledger"`
}

// Missed is a sample that failed.
type Missed struct {
	Of    string `json:"of"` // what was sampled: counters, ejections, proxy of node NAME
	Error string `json:"error"`
	// AtNS is when that was known, SinceNS when such a sample last succeeded or the first was
	// due, for a node's proxy once pods there were ready; between the two there was no answer.
	// Wall clock, Unix nanoseconds.
	AtNS    int64 `json:"at_unix_ns"`
	SinceNS int64 `json:"since_unix_ns"`
	// Every is how often one is due, nanoseconds.
	Every time.Duration `json:"every_ns"`
	// Last says that it was the one at the end, which no later sample replaces.
	Last bool `json:"last,omitempty"`
}

// Clock is how far a node's clock is ahead of ours, as measured, and the
// largest error of that, nanoseconds.
type Clock struct {
	Ahead time.Duration `json:"ahead_ns"`
	Bound time.Duration `json:"bound_ns"`
}

// Ledger is the account of all requests, as package ledger makes it.
type Ledger struct {
	Requests     int64 `json:"requests"`
	Reconciled   bool  `json:"reconciled"`
	Unreconciled int64 `json:"unreconciled"`
	Orphans      int64 `json:"orphans"`
}

// check finds what rules could not work with, or would mistake for a good trial: what was
// never written looks like what was never wrong. It names the place. It applies to trials that
// reached their end.
func (e Evidence) check(t record.Trial) error {
	c := e.Collected
	switch {
	case t.Scenario == nil:
		return errors.New("the trial is not one of resilience")
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
			checks = append(checks, fmt.Errorf("collected.missed[%d]: nothing says why", i))
		}
		checks = append(checks, verdict.CheckCount(fmt.Sprintf("collected.missed[%d].every_ns", i), int64(m.Every)))
	}
	return cmp.Or(append(checks,
		verdict.CheckCount("collected.logged", c.Logged), verdict.CheckCount("collected.lost", c.Lost), verdict.CheckCount("collected.lines.Damaged", c.Lines.Damaged), verdict.CheckCount("collected.over", c.Over),
		verdict.CheckCount("collected.ledger.requests", c.Ledger.Requests), verdict.CheckCount("collected.ledger.unreconciled", c.Ledger.Unreconciled),
		verdict.CheckCount("collected.ledger.orphans", c.Ledger.Orphans))...)
}
