// Package findings is what analysis asks of studies of resilience: what their
// trials come to by the ledger of requests, windows between steps, verdicts on
// assertions, and what arithmetic expects. It is pure.
package findings
