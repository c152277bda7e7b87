package sections

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// judged returns the cells that have verdicts.
func judged(f record.Findings) []record.CellSummary {
	return slices.DeleteFunc(slices.Clone(f.Cells), func(c record.CellSummary) bool { return c.Scenario == nil })
}

func outcome(verdict string, good bool) report.Text {
	switch {
	case verdict == record.VerdictInconclusive:
		return report.Text{S: verdict, Style: report.StyleBad}
	case good:
		return report.Text{S: verdict, Style: report.StyleGood}
	}
	return report.Text{S: verdict, Style: report.StyleBad}
}

// agreed counts a cell's trials with the expected verdict.
func agreed(s *record.ScenarioSummary) int {
	n := 0
	for _, t := range s.Trials {
		if t.Verdict == s.Expected {
			n++
		}
	}
	return n
}

// verdictTable lists the expected verdict next to the one found.
func verdictTable(f record.Findings) report.Table {
	t := report.Table{Title: "Verdicts", Columns: append(report.FactorColumns(f), report.Column{Head: "expected"}, report.Column{Head: "found"}, report.Column{Head: "trials as expected", Right: true, Keep: 6}, report.Column{Head: "because"})}
	for _, c := range judged(f) {
		s := c.Scenario
		t.Rows = append(t.Rows, append(report.FactorTexts(f, c.Cell), report.Text{S: s.Expected}, outcome(s.Verdict, s.AsExpected),
			report.Text{S: fmt.Sprintf("%d of %d", agreed(s), len(s.Trials))}, report.Text{S: because(s)}))
	}
	return t
}

// because states the reason for a cell's verdict, from the trial shown.
func because(s *record.ScenarioSummary) string {
	i := slices.IndexFunc(s.Trials, func(t record.TrialVerdict) bool { return t.Verdict == s.Verdict })
	if i < 0 {
		return "no trial"
	}
	t := s.Trials[i]
	switch t.Verdict {
	case record.VerdictInconclusive:
		if len(t.Why) > 0 {
			return t.Why[0]
		}
	case record.VerdictFail:
		for _, a := range t.Assertions {
			if a.Outcome == record.VerdictFail {
				return assertionWords(a) + ": " + a.Detail
			}
		}
	case record.VerdictPass:
		if n := len(t.Assertions); n > 0 {
			return "held: " + words.Plural(n, "assertion")
		}
		return "the study asserts nothing"
	}
	return ""
}

// assertionWords formats an assertion with the time that it covers.
func assertionWords(a record.ScenarioAssertion) string {
	if a.Time == "" {
		return a.Expr
	}
	return a.Expr + " " + a.Time
}

// scenarioAssertions has a row for each cell and assertion, from the trial shown.
func scenarioAssertions(f record.Findings) report.Table {
	t := report.Table{Title: "Assertions", Columns: append(report.FactorColumns(f), report.Column{Head: "outcome"}, report.Column{Head: "assertion"}, report.Column{Head: "detail"})}
	for _, c := range judged(f) {
		for _, a := range shownTrial(c.Scenario).Assertions {
			t.Rows = append(t.Rows, append(report.FactorTexts(f, c.Cell), outcome(a.Outcome, a.Outcome == record.VerdictPass), report.Text{S: assertionWords(a)}, report.Text{S: a.Detail}))
		}
	}
	return t
}

// shownTrial returns the verdict of the trial whose figures are shown.
func shownTrial(s *record.ScenarioSummary) record.TrialVerdict {
	for _, t := range s.Trials {
		if t.Trial == s.Shown {
			return t
		}
	}
	if len(s.Trials) > 0 {
		return s.Trials[0]
	}
	return record.TrialVerdict{}
}

// seconds formats a time of the timeline.
func seconds(s float64) string { return strconv.FormatFloat(s, 'f', 2, 64) + " s" }

// byCount lists counts by name, largest first: "timeout 12, reset 3".
func byCount[N int | int64](m map[string]N) string {
	names := slices.Sorted(maps.Keys(m))
	slices.SortStableFunc(names, func(a, b string) int { return int(m[b] - m[a]) })
	var out []string
	for _, name := range names {
		if m[name] != 0 {
			out = append(out, name+" "+report.Count(int64(m[name])))
		}
	}
	return strings.Join(out, ", ")
}

// Answers of resilience studies.

const maxSurprises = 6

// scenarioAnswers returns the verdicts in words, then anything surprising. Without steps in any
// cell, the costs of meshes come first, since they are the question then.
func scenarioAnswers(f record.Findings) []string {
	cells := judged(f)
	costs := append(meshAnswers(f), report.MoneyAnswers(f)...)
	happens := slices.ContainsFunc(cells, func(c record.CellSummary) bool { return len(c.Scenario.Steps) > 0 })
	if steady := meshOverheads(f); !happens && steady != "" {
		return slices.Concat([]string{steady}, costs, verdictAnswers(f, cells, nil))
	}
	return verdictAnswers(f, cells, costs)
}

// verdictAnswers returns the verdicts, the ledger, other facts, and surprises.
func verdictAnswers(f record.Findings, cells []record.CellSummary, costs []string) []string {
	var odd, doubtful, good []string
	requests, unreconciled, reconciled := int64(0), 0, true
	for _, c := range cells {
		s := c.Scenario
		switch {
		case s.Verdict == record.VerdictInconclusive:
			doubtful = append(doubtful, fmt.Sprintf("%s is inconclusive (%s)", c.Label, because(s)))
		case !s.AsExpected:
			odd = append(odd, fmt.Sprintf("%s came to %s; expected %s: %s.", report.UpperFirst(c.Label), s.Verdict, s.Expected, because(s)))
		default:
			good = append(good, fmt.Sprintf("%s (%s)", c.Label, verdictWords(s)))
		}
		if s.Shown != "" {
			requests += s.Ledger.Requests
			unreconciled += len(s.Ledger.Unreconciled)
			reconciled = reconciled && s.Ledger.Reconciled
		}
	}
	var out []string
	switch {
	case len(cells) == 0:
		return nil
	case len(odd) == 0 && len(doubtful) == 0 && len(cells) == 1:
		out = append(out, fmt.Sprintf("The verdict is the expected one: %s, in %s.", verdictWords(cells[0].Scenario), words.Plural(len(cells[0].Scenario.Trials), "trial")))
	case len(odd) == 0 && len(doubtful) == 0:
		out = append(out, fmt.Sprintf("Every verdict is the expected one: %s.", words.List(good)))
	default:
		out = append(out, odd...)
		if len(doubtful) > 0 {
			out = append(out, "Some verdicts are inconclusive: "+words.List(doubtful)+".")
		}
		if len(good) > 0 {
			out = append(out, "As expected: "+words.List(good)+".")
		}
	}
	for _, c := range cells {
		if s := c.Scenario; s.Shown != "" {
			out = append(out, trialWords(f, c))
		}
	}
	switch {
	case requests == 0:
	case reconciled:
		out = append(out, reconciledWords(cells, requests))
	default:
		out = append(out, fmt.Sprintf("The ledger does not reconcile for %s of %s; the report names them.", report.Count(unreconciled), words.Plural(requests, "request")))
	}
	out = append(out, costs...)
	surprises := 0
	for _, c := range cells {
		if c.Scenario.AsExpected && c.Scenario.Verdict == record.VerdictFail {
			continue // its requests are meant to fail
		}
		for _, w := range c.Scenario.Windows {
			for _, words := range w.Surprises {
				if surprises++; surprises <= maxSurprises {
					prefix := "Surprise: "
					if len(cells) > 1 {
						prefix = "Surprise with " + report.CellWords(c.Label) + ": "
					}
					out = append(out, prefix+words+".")
				}
			}
		}
	}
	if surprises > maxSurprises {
		out = append(out, fmt.Sprintf("%s more are in the windows' table.", words.Plural(surprises-maxSurprises, "surprise")))
	}
	return out
}

// verdictWords describes an expected verdict. For a pass it adds the highest share of failures that
// the assertions allowed in one of its trials.
func verdictWords(s *record.ScenarioSummary) string {
	most := s.Total.ErrorShare
	for _, t := range s.Trials {
		most = max(most, t.ErrorShare)
	}
	switch {
	case s.Verdict != record.VerdictPass || s.Shown == "" || most == 0:
		return s.Verdict
	case len(s.Trials) > 1:
		return fmt.Sprintf("%s, with up to %s of a trial's requests failed", s.Verdict, resilience.Percent(most))
	}
	return fmt.Sprintf("%s, with %s of its requests failed", s.Verdict, resilience.Percent(most))
}

// written returns the cells whose ledger has these stations, and, as part of a sentence, their names
// unless all cells do.
func written(cells []record.CellSummary, of string) (some []record.CellSummary, with string) {
	var labels []string
	for _, c := range cells {
		if c.Scenario.LedgerOf == of {
			some, labels = append(some, c), append(labels, c.Label)
		}
	}
	if len(some) < len(cells) {
		with = " with " + words.List(labels)
	}
	return some, with
}

// reconciledWords names the stations whose logs agree on the requests, and states what they lack where
// proxies log only what they receive, or nothing.
func reconciledWords(cells []record.CellSummary, requests int64) string {
	inbound, withInbound := written(cells, record.LedgerInbound)
	ends, withEnds := written(cells, record.LedgerEnds)
	who := "client, proxies and workers"
	if len(ends) == len(cells) {
		who = "client and workers"
	}
	out := fmt.Sprintf("The ledger reconciles to the request: %s agree on each of %s.", who, words.Plural(requests, "request"))
	if len(inbound) > 0 {
		out += fmt.Sprintf(" The proxies%s do not log what they send, so attempts that never arrived anywhere are unknown.", withInbound)
		unwritten := int64(0)
		for _, c := range cells {
			unwritten += c.Scenario.Ledger.Unwritten
		}
		if unwritten > 0 {
			out += fmt.Sprintf(" Their logs leave out %s that workers logged.", words.Plural(unwritten, "request"))
		}
	}
	if len(ends) > 0 {
		out += fmt.Sprintf(" Between the two%s stand proxies that log connections, or nothing: which of them lost a request, and how often a waypoint tried, is unknown.", withEnds)
		if slices.ContainsFunc(ends, func(c record.CellSummary) bool { return len(c.Scenario.Ledger.Equations) > 1 }) { // services call each other
			out += " Only the called workers log calls between services: they have each call that a good answer needed; whether they have one too many, or too few for a failed answer, is unknown."
		}
	}
	return out
}

// trialWords describes a cell's trial in a sentence.
func trialWords(f record.Findings, c record.CellSummary) string {
	s := c.Scenario
	w := s.Total
	name := report.UpperFirst(c.Label)
	if len(f.Factors) == 0 {
		name = "The trial"
	}
	out := fmt.Sprintf("%s: %s of %s failed (%s)", name, report.Count(w.Failed+w.Unfinished), words.Plural(w.Requests, "request"), resilience.Percent(w.ErrorShare))
	if w.Failed+w.Unfinished > 0 {
		us := report.ScaleFor("us", w.LongestFailUS)
		out += fmt.Sprintf("; the longest time without a success was %s", us.Value(w.LongestFailUS))
	}
	if w.Hidden > 0 {
		out += fmt.Sprintf("; retries hid %s", words.Plural(w.Hidden, "failure"))
	}
	if len(s.Ledger.Faults) > 0 {
		out += "; most failed at " + faultWords(s.Ledger.Faults[0])
	}
	return out + "."
}

// faultWords describes where and how requests failed.
func faultWords(x record.LedgerFault) string {
	out := hopWords(x.Hop)
	if x.Service != "" {
		out += " of " + x.Service
	}
	if x.Hop == hopNetwork && x.Service != "" {
		out = "the network on the way to " + x.Service
	}
	if x.Flag != "" {
		out += " with " + x.Flag
		if x.Meaning != "" {
			out += " (" + x.Meaning + ")"
		}
	}
	return out
}

// hopNetwork is where requests are lost between two stations that log.
const hopNetwork = "network"

func hopWords(hop string) string {
	switch hop {
	case "client":
		return "the client"
	case "client-proxy":
		return "the calling proxy"
	case "gateway":
		return "the gateway"
	case hopNetwork:
		return "the network"
	case "server-proxy":
		return "the called proxy"
	case "worker":
		return "the worker"
	}
	return hop
}
