// Package findings analyzes resilience studies: it derives the results of trials from the ledger of
// requests, windows between steps, verdicts on assertions, and expectations by arithmetic. It is
// pure.
package findings
