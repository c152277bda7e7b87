package trial

import (
	"fmt"
	"strings"

	"github.com/meshtrial/meshtrial/ledger"
	"github.com/meshtrial/meshtrial/record"
)

// maxStepLate is how late a step may begin, in nanoseconds.
const maxStepLate = 5e6

// judge checks whether the trial can be believed.
func (t *scenarioTrial) judge(got outcome, book *ledger.Book, logs error) {
	v := &t.out.Validity
	check := func(name string, ok bool, format string, args ...any) {
		v.Checks = append(v.Checks, record.Check{Name: name, OK: ok, Detail: fmt.Sprintf(format, args...)})
	}
	total := got.total.Account
	check("account", total.Balanced() && total.Scheduled > 0, "%d requests scheduled = %d completed + %d failed + %d unfinished",
		total.Scheduled, total.Completed, total.FailedTotal(), total.Unfinished)
	check("request-log", got.lost == 0 && int64(len(got.entries)) == total.Scheduled, "%d requests are in the clients' logs, %d were scheduled", len(got.entries), total.Scheduled)
	lag := t.out.Scenario.Lag
	check("schedule-lag", lag.P99 <= maxLateUS, "99%% of the requests left within %.2f ms of their time, %.0f ms are borne", lag.P99/1e3, maxLateUS/1e3)
	if lag.P99 > lateUS {
		v.Warnings = append(v.Warnings, fmt.Sprintf("1%% of the requests left more than %.1f ms after their time, by the clients' own fault: the machine was busy", lag.P99/1e3))
	}
	check("logs", logs == nil, "%s", orWords(logs, "the logs of all proxies and workers were read to their ends"))
	check("steps", t.unproven() == "", "%s", orText(t.unproven(), fmt.Sprintf("%d steps took effect", len(t.events))))
	check("looks", t.looks.missed == nil, "%s", orWords(t.looks.missed, "endpoints and CPU were looked at all the time"))
	v.Valid = true
	for _, c := range v.Checks {
		v.Valid = v.Valid && c.OK
	}
	for _, e := range t.events {
		if late := e.SentNS - e.PlannedNS; late > maxStepLate {
			v.Warnings = append(v.Warnings, fmt.Sprintf("step %s began %.1f ms late", e.Step, float64(late)/1e6))
		}
	}
	if a := book.Account(); !a.Reconciled {
		v.Warnings = append(v.Warnings, fmt.Sprintf("%d of %d requests are not reconciled, %d orphans", a.Classes[ledger.ClassUnreconciled], a.Requests, a.Orphans))
	}
}

// How late 99% of the requests may be sent by the clients' own fault, in
// microseconds: without a word, as windows are cut to 10 ms; and at all, as
// assertions about moments look at seconds, in which the load would not be
// what was asked for. Between the two, assertions that late requests decide
// are not judged; see package analysis.
const (
	lateUS    = 10_000
	maxLateUS = 1_000_000
)

// unproven names the steps that did not take effect, or are not known to.
func (t *scenarioTrial) unproven() string {
	var all []string
	for _, e := range t.events {
		if e.Error != "" {
			all = append(all, fmt.Sprintf("%s: %s", e.Step, e.Error))
		}
	}
	return strings.Join(all, "; ")
}

func orWords(err error, words string) string {
	if err != nil {
		return err.Error()
	}
	return words
}

func orText(text, words string) string {
	if text != "" {
		return text
	}
	return words
}
