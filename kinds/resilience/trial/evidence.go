package trial

import (
	"context"
	"fmt"

	"github.com/meshtrial/meshtrial/kinds/resilience/verdict"
	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
)

// witness records what a verdict on the trial needs in addition to its record.
func (t *scenarioTrial) witness(got outcome, book *ledger.Book) *verdict.Collected {
	logs, lines := t.scribe.problems()
	account := book.Account()
	return &verdict.Collected{Logged: int64(len(got.entries)), Lost: got.lost, Logs: logs, Lines: lines, Over: book.Over(),
		Missed: t.looks.missed, Clocks: t.before, ClocksAfter: t.after,
		Ledger: verdict.Ledger{Requests: account.Requests, Reconciled: account.Reconciled, Unreconciled: account.Classes[ledger.ClassUnreconciled], Orphans: account.Orphans}}
}

// unmeasured records what is missing without affecting the rest.
func (t *scenarioTrial) unmeasured(format string, args ...any) {
	t.noting.Lock()
	defer t.noting.Unlock()
	t.evidence.Unmeasured = append(t.evidence.Unmeasured, fmt.Sprintf(format, args...))
}

// forget removes a part's usage from the record, and records why.
func (t *scenarioTrial) forget(out *record.Scenario, part, why string) {
	delete(out.CPU, part)
	delete(out.Memory, part)
	t.unmeasured("%s", why)
}

// findNodes records the nodes of the trial's pods before its steps, and the machines of those
// nodes.
func (t *scenarioTrial) findNodes(ctx context.Context) {
	on := map[string][]string{}
	for _, pod := range t.Control {
		on[record.PartControl] = append(on[record.PartControl], pod.Node)
	}
	for _, one := range t.clients.all {
		on[record.PartGenerator] = append(on[record.PartGenerator], one.Node)
	}
	for _, one := range t.scene.scenario.Graph.Services {
		for _, r := range t.census.living(one.Name) {
			on[record.PartWorker] = append(on[record.PartWorker], r.Node)
		}
	}
	t.out.Nodes = t.NodesOf(ctx, on)
}
