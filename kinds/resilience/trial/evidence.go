package trial

import (
	"github.com/meshtrial/meshtrial/kinds/resilience/verdict"
	"github.com/meshtrial/meshtrial/ledger"
)

// witness notes what a verdict on the trial needs beside its record.
func (t *scenarioTrial) witness(got outcome, book *ledger.Book) *verdict.Collected {
	logs, lines := t.scribe.problems()
	account := book.Account()
	return &verdict.Collected{Logged: int64(len(got.entries)), Lost: got.lost, Logs: logs, Lines: lines, Over: book.Over(), Missed: t.looks.missed, Clocks: t.clocks,
		Ledger: verdict.Ledger{Requests: account.Requests, Reconciled: account.Reconciled, Unreconciled: account.Classes[ledger.ClassUnreconciled], Orphans: account.Orphans}}
}
